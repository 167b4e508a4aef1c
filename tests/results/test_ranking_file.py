"""
`ranking.json`: written, read again, and refused when it is damaged.

The card of a judge, from a signature and from what lies beside its scores.
"""

import json
import random
from dataclasses import replace

import pytest

from parlai_ext.commands.report_run import ReportRun
from parlai_ext.core import JudgeModel, UserError
from parlai_ext.core.records import record_from_json
from parlai_ext.results.ranking import (
    CardModel,
    Nearness,
    Ranking,
    judge_card,
    rank_run,
    read_ranking,
    read_tables,
    to_json,
    write_ranking,
)
from parlai_ext.store import ScorerRecord
from tests.support.mutations import mutations
from tests.support.report_example import example_ranking
from tests.support.user_error import user_error
from tests.tournament.test_rank import SCORER, played


def test_a_damaged_place_is_named_with_the_command_that_mends_it(tmp_path):
    run = played(tmp_path)
    data = to_json(example_ranking())
    data['dimensions']['Overall'][1]['rank'] = 'first'
    run.write_json('ranking.json', data)
    place = r'dimensions\.Overall\[1\]\.rank: .*parlai rank_systems --run-dir'
    with user_error(place):
        read_ranking(run)


def test_a_ranking_that_was_edited_is_refused(tmp_path):
    run = played(tmp_path)
    write_ranking(run, example_ranking())
    path = tmp_path / 'ranking.json'
    path.write_text(path.read_text().replace('"score": -1.0', '"score": -0.5'))
    with user_error(r'checksum.*parlai rank_systems --run-dir'):
        ReportRun.main(run_dir=tmp_path)


def test_whatever_is_damaged_is_a_clear_line(tmp_path):
    # one value anywhere becomes another: it is read all the same, or refused by name
    run = played(tmp_path, reference={'Overall': {'a': 3, 'b': 2, 'c': 1}})
    text = json.dumps(to_json(rank_run(run, SCORER)))
    others = (None, 'x', [], {}, 1.5, True)
    changes = list(mutations(json.loads(text), others))
    for _, data in random.Random(0).sample(changes, 60):
        run.write_json('ranking.json', data)
        try:
            ranking = read_ranking(run)
            assert record_from_json(Ranking, to_json(ranking)) == ranking
        except UserError as error:
            assert 'ranking.json is damaged: ' in str(error)


SIGNATURE = (
    'scorer:fed|followups:94ff|polarity:negative|judge:(agent:TransformerGenerator|'
    'content:4b79|reads:#6c94|text_truncate:96|cut:right)'
)


def card_of(signature, *models):
    return judge_card(signature, ScorerRecord(models=models))


def test_size_and_name_are_those_recorded_and_input_is_what_was_signed():
    card = card_of(SIGNATURE, JudgeModel('likelihood', 'hf:a/b', 5, 'c' * 40))
    assert card.scorer == 'fed'
    assert card.settings == {'followups': '94ff', 'polarity': 'negative'}
    reads = {'text_truncate': '96', 'cut': 'right'}
    assert card.models == (CardModel('likelihood', 'hf:a/b', 5, reads, 'c' * 40),)


def test_each_model_has_its_own_entry():
    both = [JudgeModel(kind, kind, 1) for kind in ('likelihood', 'e')]
    signature = 'scorer:two|judge:(cut:left)|e:(text_truncate:256)'
    card = card_of(signature, *both)
    assert [(m.kind, m.name, dict(m.reads)) for m in card.models] == [
        ('likelihood', 'likelihood', {'cut': 'left'}),
        ('e', 'e', {'text_truncate': '256'}),
    ]


def test_a_scorer_without_a_model_has_a_card_without_one():
    assert card_of('scorer:length|v:1').models == ()
    assert card_of('scorer:fed|judge:(none)').models == ()
    assert card_of('made-up|v:1').scorer == 'made-up'


def test_nearness_is_the_mean_over_the_judged_responses(tmp_path):
    run = played(tmp_path, names=('a', 'b'))
    store = run.scores(SCORER)
    rows = dict(enumerate([(9, 0.5, 1), (9, 0.1, 0), (9, 0.3, 1)]))
    for shard in run.dialogue_shards():
        [scored] = store.by_dialogue(shard).values()
        store.path(shard).unlink()
        store.write(shard, [replace(scored, evidence=rows)])
    assert read_tables(run, SCORER).nearness is None
    about = {
        'evidence_labels': ['numbers', 'nearness', 'nearest_corpus'],
        'corpora': {'names': ['a', 'b'], 'threshold': 0.3},
    }
    run.write_json(f'scores/{store.root.name}/scorer.json', about)
    found = read_tables(run, SCORER).nearness
    assert found == Nearness(pytest.approx(0.3), 0.3, 'b')
