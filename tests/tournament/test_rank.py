"""
A tournament as the ranking rule: games, points and ratings that fit on paper.
"""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.core import (
    HumanJudgement,
    Opener,
    Protocol,
    RankingOptions,
    Score,
    ScoredDialogue,
    record_to_json,
)
from parlai_ext.ranking.games import Game
from parlai_ext.ranking.standings import Rating
from parlai_ext.report.summary import rating_text, sentences
from parlai_ext.report.table import leaderboard_csv, terminal_table
from parlai_ext.results.rank import Reference, rank_run, read_reference
from parlai_ext.results.ranking import to_json
from parlai_ext.results.tables import ScoreTables
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.tournament.rank import play_tournament
from tests.support.dialogues import spoken
from tests.support.plans import some_openers
from tests.support.planted_run import played_run
from tests.support.user_error import user_error
from tests.support.written import json_in, rows_of_csv

SCORER = 'made-up|v:1'
NAMES = ('a', 'b', 'c')
OPENER = Opener.from_utterances(['How are you?'], 'test')
RULE = {'rule': 'tournament', 'rating': '3-1-0'}
# what each is worth on each dimension, in every game: a beats b beats c on wit, c beats
# b on joy, and a and c are equal there
WORTH = {
    'wit': {'a': 3.0, 'b': 2.0, 'c': 1.0},
    'joy': {'a': 2.0, 'b': 1.0, 'c': 2.0},
}


def played(
    root,
    *,
    rule=RULE,
    worth=WORTH,
    names=NAMES,
    silent=(),
    reference=None,
    openers=(OPENER,),
):
    """
    Write a run in which every ordered pair has one scored game over each opener.

    :param silent: pairs whose games were not scored.
    """

    def play(pair, opener, _):
        said = ['How are you?', 'one two', f'{pair.first} says three words']
        return spoken(pair, opener, said)

    run = played_run(
        root,
        openers,
        names,
        (),
        play,
        {SCORER: lambda pair, one, _: judged(one, pair, worth)},
        pairing='all_play_all',
        num_turns=3,
        score='both',
        ranking=rule,
        reference=reference or {},
        reference_kind='planted' if reference else None,
    )
    for pair in run.pairings:
        if pair.speakers in silent:
            run.scores(SCORER).path(run.shard(pair.id, 0)).unlink()
    return run


def judged(dialogue, pair, worth):
    # turns say something else: their mean must not enter the game
    scores = [Score(dialogue.id, 2, pair.first, d, -50.0) for d in worth]
    scores += [
        Score(dialogue.id, None, name, dimension, of[name])
        for dimension, of in worth.items()
        for name in pair.speakers
    ]
    return ScoredDialogue(dialogue.id, tuple(scores), {2: (0.0, None)})


def ranked(root, **about):
    """
    Return the ranking of such a run.
    """
    return rank_run(played(root, **about), SCORER, bootstraps=20)


def overall(ranking):
    return {one.system: one for one in ranking.standings['Overall']}


def test_points_rating_and_scores_are_those_on_paper(tmp_path):
    ranking = ranked(tmp_path)
    # two games a pair. a-b: a wins wit and joy, 2 points a game; a-c: wit, joy is
    # equal; b-c: one dimension each
    assert ranking.tournament.cross_table == {
        'a': {'a': None, 'b': 4, 'c': 2},
        'b': {'a': 0, 'b': None, 'c': 2},
        'c': {'a': 0, 'b': 2, 'c': None},
    }
    assert ranking.tournament.dimension_points['c'] == {'wit': 0, 'joy': 2}
    # a wins both matches: 6; b and c tie theirs: 1 each
    assert {n: (r.score, r.rank) for n, r in overall(ranking).items()} == {
        'a': (6.0, 1),
        'b': (1.0, 2),
        'c': (1.0, 2),
    }
    # whoever answers is judged too: two opponents, each once as first, once as second
    rows = {one.system: one for one in ranking.standings['wit']}
    assert [rows[name].n_dialogues for name in NAMES] == [4, 4, 4]
    assert {n: rows[n].score for n in NAMES} == pytest.approx(WORTH['wit'])


def test_signature_fixes_rating_seed_and_shuffles(tmp_path):
    run, about = played(tmp_path), {'bootstraps': 20, 'rating': 'openskill'}
    one, two = (rank_run(run, SCORER, **about, shuffles=n).signature for n in (1, 2))
    assert one != two
    assert 'rating:openskill' in one and 'seed:0' in one


def test_skill_has_its_uncertainty_and_the_ranks_it_leaves_open(tmp_path):
    run = played(tmp_path, openers=some_openers(3))
    ranking = rank_run(run, SCORER, bootstraps=20, rating='openskill')
    row = overall(ranking)['a']
    spread = ranking.tournament.ratings['openskill'].spreads['a']
    assert row.high - row.score == pytest.approx(1.96 * spread)
    assert row.rank_low <= row.rank <= row.rank_high
    # a rating without deviations leaves rank intervals unknown
    row = overall(rank_run(run, SCORER, bootstraps=20))['a']
    assert (row.rank, row.rank_low, row.rank_high) == (1, None, None)


@pytest.mark.parametrize('rating', ['openskill', '3-1-0'])
def test_games_over_one_opener_leave_ranks_and_intervals_unknown(tmp_path, rating):
    ranking = ranked(tmp_path, rule={**RULE, 'rating': rating})
    for rows in ranking.standings.values():
        for row in rows:
            assert row.n_openers == 1  # two games over it, one begun by each
            assert (row.low, row.rank_low, row.rank_high) == (None, None, None)
    assert 'first' not in sentences(ranking)[0]


def test_a_plan_is_refused_before_anything_is_written(tmp_path):
    run = played(tmp_path)
    with user_error('--plan: a tournament'):
        RankSystems.main(run_dir=run.root, plan='0.5', bootstraps=20)
    assert not (run.root / 'ranking.json').exists()


def test_planted_order_is_compared_by_tau_beside_baselines(tmp_path):
    reference = {'Overall': {'a': 3, 'b': 2, 'c': 1}}
    ranking = ranked(tmp_path, reference=reference)
    found = ranking.reference['Overall']
    # a-b and a-c agree, b and c tie in the rating: 2 / sqrt(2 * 3)
    assert found.kendall.value == pytest.approx(2 / 6**0.5)
    assert set(ranking.baseline_reference) == set(ranking.baselines)
    # all speak alike
    length = ranking.baseline_reference['mean_length']['Overall']
    assert length.kendall.value is None and length.reason


def test_ranks_of_judges_are_averaged_and_the_smallest_is_best():
    said = [
        HumanJudgement(name, 'rank', rank, rater)
        for rater, ranks in {'r': (1, 2, 3), 's': (2, 1, 3)}.items()
        for name, rank in zip(NAMES, ranks, strict=True)
    ]
    said += [replace(one, dimension='wit') for one in said]
    tables = ScoreTables(NAMES, (), {'wit': np.zeros((3, 1, 1))}, {}, {})
    reference = read_reference(Protocol('test'), said, tables, is_tournament=True)
    assert set(reference.by_dimension) == {'wit'}
    assert reference.rating == {'a': -1.5, 'b': -1.5, 'c': -3.0}


def test_one_without_a_game_leaves_the_others_their_places(tmp_path):
    silent = [(x, y) for x in NAMES for y in NAMES if 'a' in (x, y)]
    run = played(tmp_path, silent=silent)
    rows = overall(rank_run(run, SCORER, bootstraps=20, max_failed_share=1.0))
    # b wins on wit and c on joy: a tie, one point each
    places = {n: (row.rank, row.score) for n, row in rows.items()}
    assert places == {'a': (None, None), 'b': (1, 1), 'c': (1, 1)}
    assert rows['a'].why_unranked == 'undefined: none of its games has a result'


def test_an_incomplete_tournament_has_a_reason(tmp_path):
    run = played(tmp_path, silent=[('a', 'b'), ('b', 'a')])
    ranking = rank_run(run, SCORER, bootstraps=20)
    assert all(row.rank is None for row in overall(ranking).values())
    assert 'never met: a and b' in next(iter(overall(ranking).values())).why_unranked
    json.dumps(to_json(ranking), allow_nan=False)
    assert 'nan' not in terminal_table(ranking).casefold().split()


def test_ties_everywhere_are_a_shared_first_place(tmp_path):
    worth = {d: dict.fromkeys(NAMES, 1.0) for d in WORTH}
    ranking = ranked(tmp_path, worth=worth, reference={'Overall': {'a': 2, 'b': 1}})
    assert {row.rank for row in overall(ranking).values()} == {1}
    found = ranking.reference['Overall']
    assert found.kendall.value is None and found.reason
    assert 'are all equal' in sentences(ranking)[0]


def test_leaderboard_has_points_and_uncertainty(tmp_path):
    ranking = ranked(tmp_path, rule={**RULE, 'rating': 'openskill'})
    rows = rows_of_csv(leaderboard_csv(ranking))
    points = {(r['dimension'], r['system']): r['points'] for r in rows}
    # a: 4 points against b, 2 against c
    assert points['Overall', 'a'] == '6' and points['wit', 'a'] == '4'
    spreads = {r['dimension']: r['rating_sd'] for r in rows if r['system'] == 'a'}
    assert float(spreads['Overall']) > 0 and spreads['wit'] == ''


def test_command_line_chooses_the_rule(tmp_path, printed):
    run = played(tmp_path, rule={})
    RankSystems.main(run_dir=run.root, rating='2-1-0', bootstraps=20)
    written = json_in(tmp_path / 'ranking.json')
    assert written['tournament']['rating'] == '2-1-0'
    assert 'points of each match' in printed()
    with user_error("rating: 'elo'.*openskill"):
        RankSystems.main(run_dir=run.root, rating='elo')


@pytest.mark.parametrize(
    'lines, right',
    [
        ('pairing: bipartite\nscore: both', 'pairing: all_play_all'),
        ('pairing: all_play_all\nscore: target', 'score: both'),
    ],
)
def test_tournament_needs_opponents_who_are_judged(tmp_path, lines, right):
    path = tmp_path / 'p.yaml'
    path.write_text(f'{lines}\nroster: mini\nranking: {{rule: tournament}}\n')
    with user_error(f'p.yaml.*a tournament needs {right}'):
        load_protocol_file(str(path))


def result_of(games, systems, **options):
    """
    Return the result of games between systems, compared with the rank of A.
    """
    scores = {'x': np.zeros((len(systems), 1, 1))}
    tables = ScoreTables(tuple(systems), (), scores, {}, {}, dialogues=games)
    reference = Reference('human', {}, {'A': -1.0})
    return play_tournament(tables, RankingOptions(**options), reference, seed=0)


@pytest.mark.parametrize(
    'raw, systems',
    [
        ({}, 'A'),
        ({'A': {'x': None}, 'B': {'x': float('nan')}}, 'AB'),
        ({'A': {'x': 1.0}, 'B': {'x': 1.0}}, 'ABC'),
    ],
)
def test_a_result_is_json_without_nan_whatever_is_missing(raw, systems):
    games = [Game('A', 'B', raw)] if raw else []
    result = result_of(games, systems)
    json.dumps(record_to_json(result), allow_nan=False)
    assert result.incomplete
    assert all(one.tau.value is None for one in result.ratings.values())


def test_a_result_names_the_package_that_a_rating_needs(uninstalled):
    uninstalled('trueskill')
    game = Game('A', 'B', {'A': {'x': 1.0}, 'B': {'x': 0.0}})
    result = result_of([game], 'AB', rating='trueskill')
    reason = result.ratings['trueskill'].reason
    assert '; pip install trueskill (free' in reason


@pytest.mark.parametrize(
    'spread, text', [(0.2, '25.1 ± 0.2'), (0.1, '25.12 ± 0.10'), (None, '25.1')]
)
def test_a_rating_with_a_narrow_interval_has_two_decimals(spread, text):
    # 2 * 1.96 * 0.1 is below 0.5, 2 * 1.96 * 0.2 is not
    spreads = {} if spread is None else {'a': spread}
    rating = Rating(values={'a': 25.123}, spreads=spreads, signature='')
    assert rating_text(SimpleNamespace(chosen_rating=rating), 'a') == text
