"""
Tournaments: games whose points are worked out by hand, and the ratings that follow,
against pencil, openskill, trueskill and scipy.
"""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
from openskill.models import ThurstoneMostellerFull
from scipy import optimize

from parlai_ext.ranking import ratings
from parlai_ext.ranking.games import Game, award_points, mean_raw
from parlai_ext.ranking.ratings import bradley_terry_strengths, rate, sum_of_ranks


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


# Ratings: against pencil, openskill, trueskill and scipy.

ALL = ('openskill', 'bradley_terry', '3-1-0', '2-1-0')


def won(winner, loser, id=''):
    return Game(winner, loser, {winner: {'a': 1.0}, loser: {'a': 0.0}}, id)


def drawn(one, other):
    return Game(one, other, {one: {'a': 1.0}, other: {'a': 1.0}})


@pytest.mark.parametrize('win', [3, 2])
def test_football_points_are_those_on_paper(win):
    # A beats B, A ties C, B beats C
    games = [won('A', 'B'), drawn('A', 'C'), won('B', 'C')]
    rating = rate(award_points(games), f'{win}-1-0')
    assert rating.values == {'A': win + 1, 'B': win, 'C': 1}


@pytest.mark.parametrize('method', ALL)
def test_a_system_without_a_game_has_no_rating_and_changes_no_other(method):
    two, three = (
        rate(award_points([won('A', 'B')], systems=names), method)
        for names in ('AB', 'ABC')
    )
    assert three.ranks == {'A': 1, 'B': 2, 'C': None}
    assert three.values['A'] == two.values['A']


@pytest.mark.parametrize('method', ALL)
def test_ties_everywhere_rate_all_alike(method):
    games = [drawn(a, b) for a, b in itertools.permutations('ABC', 2)]
    assert len(set(rate(award_points(games), method).values.values())) == 1


def assert_rated(game, method, a, b):
    rating = rate(award_points([game]), method)
    assert rating.values == pytest.approx({'A': a.mu, 'B': b.mu}, abs=1e-9)
    assert rating.spreads == pytest.approx({'A': a.sigma, 'B': b.sigma}, abs=1e-9)


def test_one_game_equals_openskill_itself():
    model = ThurstoneMostellerFull()
    ((a,), (b,)) = model.rate([[model.rating()], [model.rating()]], ranks=[0, 1])
    assert_rated(won('A', 'B'), 'openskill', a, b)


def test_one_game_equals_trueskill_itself():
    trueskill = pytest.importorskip('trueskill')
    both = trueskill.rate_1vs1(trueskill.Rating(), trueskill.Rating(), drawn=True)
    assert_rated(drawn('A', 'B'), 'trueskill', *both)


def test_the_average_of_shuffles_is_the_mean_of_single_ones(monkeypatch):
    orders = [[0, 1, 2], [2, 1, 0], [1, 0, 2]] * 2
    rng = SimpleNamespace(permutation=lambda size: orders.pop())
    monkeypatch.setattr(ratings.np.random, 'default_rng', lambda seed: rng)
    results = award_points([won('A', 'B'), won('B', 'C'), won('C', 'A')])
    three, *singles = (rate(results, shuffles=n).values['A'] for n in (3, 1, 1, 1))
    assert three == pytest.approx(np.mean(singles))


def test_the_seed_is_signed_and_decides_the_shuffles_not_the_order_of_the_input():
    games = [won(*pair, id=pair) for pair in ('AB', 'BC', 'CA', 'AD', 'DB', 'CD')]
    zero, one = (rate(award_points(games), seed=seed) for seed in (0, 1))
    assert rate(award_points(games[::-1])) == zero
    assert '|seed:0' in zero.signature and '|seed:1' in one.signature
    assert zero.values != one.values


def test_bradley_terry_is_the_maximum_that_scipy_finds():
    wins = np.array([[0, 3, 1, 2], [1, 0, 2, 2.5], [2, 1, 0, 1], [1, 1.5, 2, 0]])

    def loss(x):
        return np.sum((wins + 0.5) * np.log1p(np.exp(x[None, :] - x[:, None])))

    best = optimize.minimize(loss, np.zeros(4), tol=1e-12).x
    # where all wins are losses, the strengths change their sign
    found, turned = bradley_terry_strengths(np.array([wins, wins.T]))
    assert found == pytest.approx(best - best.mean(), abs=1e-5)
    assert turned == pytest.approx(-found, abs=1e-5)


@pytest.mark.parametrize(
    'pairs, method, words',
    [
        (('AB', 'BC'), '3-1-0', '^never met: A and C$'),
        (('AB', 'CD'), 'openskill', 'join A, B'),
        (('AB', 'CD'), 'bradley_terry', 'join A, B'),
        ((), 'openskill', '^0 system; a tournament needs two or more$'),
    ],
)
def test_a_rating_that_is_undefined_says_why(pairs, method, words):
    rating = rate(award_points([won(*p) for p in pairs]), method)
    assert re.search(words, rating.reason)
    assert {*rating.values.values()} <= {None}


def test_a_rating_names_the_package_that_it_needs(uninstalled):
    uninstalled('trueskill')
    rating = rate(award_points([won('A', 'B')]), 'trueskill')
    assert '; pip install trueskill (free' in rating.reason


@pytest.mark.parametrize('method', ['openskill', 'bradley_terry'])
def test_skills_need_only_a_chain_of_games(method):
    rating = rate(award_points([won('A', 'B'), won('B', 'C')]), method)
    assert rating.ranks == {'A': 1, 'B': 2, 'C': 3}
    assert '1 pair never met' in rating.notes


def test_sums_of_ranks_by_hand():
    # a: X 1, Y 2, Z 3; b: Y and Z share 1.5, X 3 → X 4, Y 3.5, Z 4.5
    table = {'X': (9.0, 0.0, None), 'Y': (5.0, 2.0, 1.0), 'Z': (1.0, 2.0, 2.0)}
    raw = {n: dict(zip('abc', row, strict=True)) for n, row in table.items()}
    rating = sum_of_ranks(raw)
    assert rating.values == {'X': -4, 'Y': -3.5, 'Z': -4.5}
    # a dimension that one lacks is left out for all
    assert rating.notes == ('c left out: no raw score of X',)


def test_sums_of_ranks_of_one_system_are_undefined():
    assert sum_of_ranks({'X': {'a': 1.0}}).reason == '1 system; ranks need two or more'
