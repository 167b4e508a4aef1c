"""
Fitting the learned judge to annotations: what is planted is found, and nothing is
found where nothing is planted.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from parlai_ext.commands.fit_judge import FitJudge
from parlai_ext.core import Dialogue, HumanJudgement
from parlai_ext.data.judged import Annotation, JudgedItem, JudgedSet
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.learned import BLOCKS, NUMBERS, BlockWeights, JudgeWeights
from parlai_ext.store import locked
from parlai_ext.training.fit_judge import (
    Annotated,
    AnnotatedTable,
    Rest,
    annotated_run,
    annotated_set,
    annotated_table,
    fit_report,
    fitted_weights,
    grouped_folds,
    rank_labels,
)
from parlai_ext.view.page import terminal_lines
from tests.support.store_samples import write_files
from tests.support.user_error import user_error

SIZES = dict(zip(BLOCKS, (len(NUMBERS), 5, 6), strict=True))


def table(planted, noise, n=200, seed=0):
    """
    Return a table whose labels are ``planted`` of one input beside the score before.
    """
    rng = np.random.default_rng(seed)
    rows, before = rng.normal(size=(n, 8)), rng.normal(size=n)
    values = before + planted * rows[:, 3] + noise * rng.normal(size=n)
    groups = [f'context {k // 4}' for k in range(n)]
    trivial = {'length': rng.normal(size=n)}
    return AnnotatedTable(rows, before, rank_labels(values), groups, trivial)


def test_ranks_have_mean_0_and_spread_1():
    labels = rank_labels(np.array([10.0, np.nan, 30.0, 20.0]))
    # ranks 1, 3, 2; their spread is sqrt(2 / 3)
    assert labels[[0, 2, 3]] == pytest.approx(np.array([-1, 1, 0]) / (2 / 3) ** 0.5)
    assert np.isnan(labels[1])


def test_a_planted_taste_is_found():
    report = fit_report(table(planted=2.0, noise=0.3))
    # before: correlation 1 / sqrt(1 + 4 + 0.09) = 0.44; all of it would be 0.99
    assert report.before.value == pytest.approx(0.44, abs=0.1)
    assert report.fitted.value > 0.9
    assert report.helps


def test_where_nothing_is_planted_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr('parlai_ext.training.fit_judge.RESAMPLES', 200)
    helped = [fit_report(table(0.0, 1.0, seed=seed)).helps for seed in range(6)]
    assert sum(helped) <= 1


def test_what_a_fit_to_noise_is_worth_is_nothing():
    """
    No bias: the mean over worlds is 0, but for its standard error of 0.1 / sqrt(30).
    """
    worths = []
    for seed in range(30):
        noise = np.random.default_rng(seed + 100).normal(size=100)
        one = replace(table(0.0, 0.0, n=100, seed=seed), labels=rank_labels(noise))
        worths.append(fit_report(one).fitted.value)
    assert abs(np.mean(worths)) < 0.06


def test_a_trivial_scorer_that_agrees_as_well_is_named():
    one = table(planted=2.0, noise=0.3)
    trivial = {'length': -one.labels, 'overlap': np.zeros(200), 'noise': one.before % 1}
    report = fit_report(replace(one, trivial=trivial))
    assert report.unbeaten == ('length',)
    assert report.trivial['overlap'].value is None
    last = terminal_lines('fitted_judge', report=report)[-1]
    assert 'does not beat length, which is trivial' in last


def test_a_fit_that_agrees_less_beyond_chance_is_said_to():
    worse = replace(fit_report(table(0.0, 1.0)), gain=Estimate(-0.06, -0.10, -0.01))
    lines = terminal_lines('fitted_judge', report=worse)
    assert 'lower agreement: from' in '\n'.join(lines)


def test_growing_contexts_of_a_dialogue_are_one_group():
    turns = [(('hi',), 'a'), (('hi',), 'b'), (('hi', 'a', 'so'), 'c'), (('ho',), 'a')]
    items = (
        JudgedItem(str(k), *turn, 'bot', {'Wit': [Annotation('1', k)]})
        for k, turn in enumerate(turns)
    )
    judged = JudgedSet('mine', '', '', '', 'turn', tuple(items))
    first, *others, last = (one.group for one in annotated_set(judged, 'Wit'))
    assert {*others} == {first} != {last}


def csv_of(folder, values, contexts=10):
    rows = [f'c{k % contexts},r{k},bot,Wit,{v}' for k, v in enumerate(values)]
    file = folder / 'mine.csv'
    file.write_text('\n'.join(['context,response,system,quality,value', *rows]) + '\n')
    return str(file)


@pytest.mark.parametrize(
    'values, contexts, problem',
    [
        (range(19), 10, '19 annotated items'),
        (range(30), 4, '4 contexts'),
        ([3] * 30, 10, 'the same value'),
    ],
)
def test_annotations_of_which_nothing_can_be_learned(
    tmp_path, values, contexts, problem
):
    file = csv_of(tmp_path, values, contexts)
    with user_error(problem):
        FitJudge.main(judged_file=file, out=str(tmp_path / 'out'))


def test_an_earlier_judge_is_not_overwritten_but_fitted_again_by_one_command(tmp_path):
    file, out = csv_of(tmp_path, range(30)), tmp_path / 'out'
    about = {
        'description': f'fitted to 30 items of {Path(file).name}',
        'learned_from': f'{Path(file).name}, starting from shipped',
    }
    write_files(out, {'judge.yaml': yaml.safe_dump(about).encode()})
    # the same command goes on, as far as the lock of another one lets it
    with locked(out / '.lock'), user_error('in use by process'):
        FitJudge.main(judged_file=file, out=str(out))
    for other in ({'quality': 'Wit'}, {'judged_file': csv_of(out, range(25))}):
        with user_error('--out .*/out: another judge is in it, as its judge.yaml says'):
            FitJudge.main(**{'judged_file': file, 'out': str(out), **other})


def test_judgements_of_another_run_are_refused():
    given = HumanJudgement('bot', 'Overall', 3, 'Ann', 'd2')
    with user_error("dialogue_id: no 'd2' is in the run; known: d1"):
        annotated_run([Dialogue('d1', 'p', 'o', ())], [given], 'Overall')


def test_a_group_is_never_in_two_folds():
    groups = ['a', 'b', 'a', 'c', 'd', 'b', 'e', 'f', 'a']
    folds = list(grouped_folds(groups, 0))
    assert sorted(i for _, fold in folds for i in fold) == list(range(len(groups)))
    for others, fold in folds:
        assert sorted([*others, *fold]) == list(range(len(groups)))
        assert not {groups[i] for i in fold} & {groups[i] for i in others}


def test_fitted_weights_give_the_fitted_scores():
    rng = np.random.default_rng(1)
    blocks = {
        name: BlockWeights(np.zeros(size), np.ones(size), rng.normal(size=size))
        for name, size in SIZES.items()
    }
    judge = JudgeWeights(blocks, 0.3, '', {})
    inputs = {name: rng.normal(size=(60, n)) * 0.5 for name, n in SIZES.items()}
    items = (ScoringItem((), 'x'),)
    annotated = [Annotated(items, float(k), 'a') for k in range(60)]
    table = annotated_table(annotated, inputs, judge)
    rest = Rest(0.7, rng.normal(size=table.rows.shape[1]), 0.2)
    new = fitted_weights(judge, rest, 'mine')
    assert new.fitted_on == ('mine',)
    scores = new.parts(inputs).sum(1) + new.bias
    assert scores == pytest.approx(rest.scores(table))
