"""
Tournaments: games whose points are worked out by hand.
"""

import pytest

from parlai_ext.ranking.games import Game, award_points, mean_raw


def game(first, second, mine, yours, dims='abcdefg', id=''):
    """
    A game with raw scores in the order of ``dims``.
    """
    raw = {
        first: dict(zip(dims, mine, strict=False)),
        second: dict(zip(dims, yours, strict=False)),
    }
    return Game(first, second, raw, id)


def test_a_point_on_each_dimension_that_is_larger_and_none_for_a_tie():
    # a 3 > 1: X; b -2 < -1: Y; c equal: nobody; d 0.5 > 0.25: X
    one = award_points([game('X', 'Y', [3, -2, 7, 0.5], [1, -1, 7, 0.25])])
    assert (one.results[0].totals['X'], one.results[0].totals['Y']) == (2, 1)
    assert one.results[0].winner == 'X'


def test_a_missing_raw_score_gives_nobody_the_point_and_is_counted():
    games = [
        game('X', 'Y', [None, 1], [5, 0], 'ab'),
        game('Y', 'X', [1, 0], [0, 0], 'ab'),
    ]
    one = award_points(games)
    assert one.results[0].points['Y'] == {'a': None, 'b': 0}
    [note] = one.notes()
    assert note.startswith('a: ') and '1 of 2 games' in note


@pytest.mark.parametrize('value', [None, float('nan')])
def test_a_game_without_any_comparison_has_no_result(value):
    one = award_points([game('X', 'Y', [value], [1], 'a')])
    assert one.results[0].points['Y'] == {'a': None}
    assert one.compared_games == ()
    assert 'no game has a raw score' in one.incomplete()


def test_leaving_a_dimension_out_leaves_its_points_out():
    games = [game('X', 'Y', [1, 0, 0], [0, 1, 1], 'abc')]
    assert award_points(games, dimensions=['a']).results[0].winner == 'X'
    assert award_points(games).results[0].winner == 'Y'


def test_pairs_that_never_met_are_named_and_many_counted():
    games = [game('A', 'B', [1], [0], 'a'), game('B', 'C', [1], [0], 'a')]
    one = award_points(games, systems=['A', 'B', 'C'])
    assert one.incomplete() == 'never met: A and C'
    assert one.cross_table()['A']['C'] is None
    # of the 6 pairs of A, B, C, D one met
    assert award_points(games[:1], systems='ABCD').incomplete() == (
        'never met: A and C, A and D, B and C (and 2 more)'
    )


def test_uneven_matches_are_noted():
    games = [game(*pair, [1], [0], 'a', pair) for pair in ('AB', 'BA', 'AC', 'BC')]
    assert list(award_points(games).notes()) == ['matches of 1 to 2 games']


def test_mean_raw_is_over_the_games_that_have_one():
    games = [
        game('A', 'B', [1, None], [4, 2], 'ab'),
        game('B', 'A', [6, None], [2, None], 'ab'),
    ]
    found = mean_raw(games, 'AB')
    assert found == {'A': {'a': 1.5, 'b': None}, 'B': {'a': 5.0, 'b': 2.0}}


def test_wins_draws_and_losses_are_those_on_paper():
    games = [game('A', 'B', [1], [0], 'x'), game('B', 'A', [1], [1], 'x')]
    of_games = {'games_won': 1, 'games_drawn': 1, 'games_lost': 0}
    of_matches = {'matches_won': 1, 'matches_drawn': 0, 'matches_lost': 0}
    assert award_points(games).records()['A'] == of_games | of_matches
