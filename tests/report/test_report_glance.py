"""
The four answers at the top of the page, and the tables behind a leaderboard.
"""

from dataclasses import replace
from itertools import combinations

import pytest

from parlai_ext.ranking.pairs import CellMean
from parlai_ext.ranking.separation import Separation
from parlai_ext.report.details import (
    SHADES,
    draw_pairs,
    draw_panel,
    draw_partners,
    draw_spreads,
    signed,
)
from parlai_ext.report.page import answers
from parlai_ext.report.view import DimensionDetails, RankingView, dimension_details
from parlai_ext.results.rank import rank_run
from parlai_ext.results.tables import read_tables
from tests.support.check_example import FAILS, PASSES, WEAK, example_check
from tests.support.report_example import (
    SCORER,
    example_ranking,
    example_run,
    standing,
    tournament_result,
)


@pytest.fixture(scope='module')
def ranked(tmp_path_factory):
    run = example_run(
        tmp_path_factory.mktemp('glance') / 'r',
        targets=('alpha', 'beta', 'floor-x'),
        openers=[f'hello {n}' for n in range(4)],
        ranking={'bootstraps': 50, 'max_failed_share': 0.5},
    )
    ranking = rank_run(run, SCORER)
    return ranking, dimension_details(run, ranking, read_tables(run, SCORER))


def by_question(ranking, details=None):
    view = RankingView(ranking, {}, details or {})
    return {one.question: one for one in answers(view, 'Overall')}


def test_the_lead_is_the_paired_difference_to_the_second_system(ranked):
    # floors lead in these made-up scores, and are no part of the claim
    ranking, details = ranked
    found = by_question(*ranked)
    pair = details['Overall'].by_names['beta', 'alpha']
    assert found['By how much'].text.endswith(' over alpha')
    assert found['By how much'].text.startswith(signed(pair.difference, 2))
    assert f'of {pair.n} dialogues' in found['By how much'].more
    assert found['Who leads'].text == 'beta'
    assert 'below the floor floor-x' in found['Who leads'].more


@pytest.mark.parametrize(
    'outcome, believed',
    [(PASSES, 'passed'), (WEAK, 'weak'), (FAILS, 'fails'), (None, 'Not known')],
)
def test_whether_to_believe_it_is_what_the_check_says(outcome, believed):
    check = outcome and example_check({'Overall': outcome})
    found = by_question(example_ranking(judge_check=check))
    assert believed in found['Believe it?'].text
    assert (found['Who leads'].text == 'Nobody') == (outcome is FAILS)


def test_nobody_leads_where_nothing_is_told_apart():
    none_apart = Separation(1, 0, 'beta', ('alpha',))
    ranking = replace(example_ranking(), separation={'Overall': none_apart})
    found = by_question(ranking)
    assert (
        found['Who leads'].text == 'Not settled' and 'beta' in found['Who leads'].more
    )


def test_a_pair_without_an_interval_has_no_dash_in_its_place(ranked):
    ranking, details = ranked
    pairs = [replace(one, low=None, high=None) for one in details['Overall'].pairs]
    without = {'Overall': replace(details['Overall'], pairs=tuple(pairs))}
    assert by_question(ranking, without)['By how much'].more.startswith('no interval;')


def test_each_dimension_has_answers_of_its_own():
    check = example_check({'Overall': PASSES, 'Fluency': FAILS})
    ranking = example_ranking(judge_check=check)
    leader, lead, _, trust = answers(RankingView(ranking, {}), 'Fluency')
    assert leader.text == 'Nobody' and 'Fluency' in leader.more
    assert lead.text == 'Not known'
    assert trust.text.startswith('No:')
    assert answers(RankingView(ranking, {}), 'Overall')[0].text == 'beta'
    # the lead in a tournament is its rating; on a dimension of its scores it is not
    games = replace(ranking, tournament=tournament_result({'alpha': 1.0, 'beta': 2.0}))
    assert answers(RankingView(games, {}), 'Overall')[1].text == 'Rating 2.0'
    assert 'Rating' not in answers(RankingView(games, {}), 'Fluency')[1].text


def test_remarks_are_among_the_reasons_to_believe():
    trust = answers(RankingView(example_ranking(), {}), 'Overall', ['its audit fails'])[
        -1
    ]
    assert 'its audit fails' in trust.more


def test_tables_that_would_say_nothing_are_empty():
    nothing = DimensionDetails(('tom', 'mary'), {}, {}, ())
    for draw in (draw_pairs, draw_partners, draw_spreads):
        assert draw_panel([standing('beta', None, None)], nothing, draw) == {}
    # one partner: its column is the leaderboard
    cells = {'alpha': {'tom': CellMean(1.0, 3)}}
    one = DimensionDetails(('tom',), cells, {}, ())
    for draw in (draw_pairs, draw_partners):
        assert draw_panel([standing('alpha', 1, 1.0)], one, draw) == {}


def test_the_matrix_is_its_own_mirror(ranked):
    ranking, details = ranked
    panel = draw_panel(ranking.standings['Overall'], details['Overall'], draw_pairs)
    names, pairs = panel['systems'], panel['pairs']
    assert names == ['floor-x', 'beta', 'alpha']
    for first, second in combinations(names, 2):
        there, back = pairs[first, second], pairs[second, first]
        assert there.difference == -back.difference and there.apart == back.apart
        texts = {signed(there.difference)[0], signed(back.difference)[0]}
        assert texts == {'+', '\u2212'}


def test_the_lowest_and_highest_cell_have_the_ends_of_the_colours(ranked):
    ranking, details = ranked
    standings = ranking.standings['Overall']
    heat = draw_panel(standings, details['Overall'], draw_partners)
    cells = [
        heat['cells'][name][p] for name in heat['systems'] for p in heat['partners']
    ]
    assert {cell.n for cell in cells} == {3, 4}  # one in four with tom broke off
    ends = {cell.mean: heat['shade'](cell) for cell in cells}
    assert (ends[heat['low']], ends[heat['high']]) == (0, SHADES - 1)
