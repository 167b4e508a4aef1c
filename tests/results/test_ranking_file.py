"""
`ranking.json`: written, read again, and refused when it is damaged.
"""

import json
import random

from parlai_ext.commands.report_run import ReportRun
from parlai_ext.core.errors import UserError
from parlai_ext.results.rank import rank_run
from parlai_ext.results.ranking import from_json, read_ranking, to_json, write_ranking
from tests.support.report_example import example_ranking
from tests.support.user_error import user_error
from tests.tournament.test_rank import SCORER, played


def test_a_ranking_with_a_tournament_comes_back_as_it_was(tmp_path):
    run = played(tmp_path, reference={'Overall': {'a': 3, 'b': 2, 'c': 1}})
    ranking = rank_run(run, SCORER, bootstraps=20)
    write_ranking(run, ranking)
    assert read_ranking(run) == ranking


def test_rows_do_not_repeat_their_dimension():
    rows = to_json(example_ranking())['dimensions']['Overall']
    assert {row['system'] for row in rows} == {'alpha', 'beta'}
    assert not any('dimension' in row for row in rows)


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
    data = json.loads(path.read_text())
    data['dimensions']['Overall'][0]['score'] += 0.5
    path.write_text(json.dumps(data))
    with user_error(r'checksum.*parlai rank_systems --run-dir'):
        ReportRun.main(run_dir=tmp_path)


def test_whatever_is_damaged_is_a_clear_line(tmp_path):
    # one value anywhere becomes another: it is read all the same, or refused by name
    run = played(tmp_path, reference={'Overall': {'a': 3, 'b': 2, 'c': 1}})
    text = json.dumps(to_json(rank_run(run, SCORER, bootstraps=5)))
    rng = random.Random(0)
    for _ in range(200):
        data = json.loads(text)
        place = data
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            parent, key = place, rng.choice(keys)
            place = parent[key]
        parent[key] = rng.choice([None, 'x', [], {}, 1.5, True])
        run.write_json('ranking.json', data)
        try:
            assert from_json(to_json(read_ranking(run))) == read_ranking(run)
        except UserError as error:
            assert 'ranking.json is damaged: ' in str(error)
