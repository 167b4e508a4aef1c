"""
Simulated annotators with known error rates: what was planted comes back.
"""

import argparse

import pytest

from benchmarks.simulated_annotators import (
    answer_acute,
    answer_sheets,
    expected_shares,
    planted_answers,
)
from parlai_ext.commands.export_annotation import ExportAnnotation
from parlai_ext.commands.export_crowdsourcing import ExportCrowdsourcing
from parlai_ext.commands.import_annotation import ImportAnnotation
from parlai_ext.commands.import_judgements import ImportJudgements
from parlai_ext.people.ranking import agreement_with_order
from parlai_ext.people.rating_set import read_key
from tests.support.annotated_answers import HUMAN, TOXIC, answers_file
from tests.support.rated_run import rated_run

pytestmark = pytest.mark.usefixtures('no_power_cuts')
TARGETS = ('quill', 'raven', 'tern', 'wren')


def options(**given):
    return argparse.Namespace(**{'annotators': 7, 'guessers': 1, 'seed': 0, **given})


@pytest.mark.parametrize('items', ['pairs', 'labels'])
def test_kappa_and_shares_are_those_that_were_planted(tmp_path, capsys, items):
    folder, back, error = tmp_path / 'set', tmp_path / 'back', 0.3
    ExportAnnotation.main(
        answers=[str(answers_file(tmp_path, num_prompts=100))],
        out=str(folder),
        items=items,
        num_prompts=100,
        human=HUMAN,
        toxic=TOXIC,
    )
    answer_sheets(options(key=str(folder), out=back, error_rate=error))
    results = ImportAnnotation.main(
        key=str(folder), answers=[str(back)], drop_failed=True, bootstraps=100
    )
    failing = [one.annotator for one in results.annotators if one.fails]
    assert failing == ['guesser-7']
    # two annotators both give the planted answer with chance (1 - error) ** 2, and
    # otherwise agree by chance alone
    assert results.kappa.value == pytest.approx((1 - error) ** 2, abs=0.04)
    assert results.alpha.value == pytest.approx((1 - error) ** 2, abs=0.06)
    key = read_key(folder)
    expected = expected_shares(key, planted_answers(key, 0), error)
    for share in results.shares:
        if share.name not in ('flagged', 'mean'):
            value = expected[share.system].get(share.name, 0.0)
            assert share.value == pytest.approx(value, abs=0.05)


def test_acute_answers_give_the_planted_order_back(tmp_path, monkeypatch):
    run = rated_run(tmp_path / 'run', TARGETS)
    order = {name: float(place) for place, name in enumerate(TARGETS)}
    monkeypatch.setattr(
        'benchmarks.simulated_annotators.planted_strengths', lambda run: order
    )
    folder = str(run.root)
    ExportCrowdsourcing.main(
        run_dir=folder, format='acute_eval', matchups='complete', num_items=48
    )
    answer_acute(options(run_dir=folder, out=tmp_path / 'back'))
    (ranking,) = ImportJudgements.main(
        run_dir=folder,
        format='acute_eval',
        answers=[str(tmp_path / 'back')],
        bootstraps=50,
    )
    # the seventh annotator fails the onboarding
    assert (ranking.num_annotators, ranking.num_answers) == (6, 6 * 48)
    assert agreement_with_order(ranking, order).value == pytest.approx(1.0)
