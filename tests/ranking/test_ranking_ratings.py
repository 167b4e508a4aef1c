"""
Ratings: against pencil, openskill, trueskill and scipy.
"""

import itertools
import re
from types import SimpleNamespace

import numpy as np
import pytest
from openskill.models import ThurstoneMostellerFull
from scipy import optimize

from parlai_ext.ranking import ratings
from parlai_ext.ranking.games import Game, award_points
from parlai_ext.ranking.ratings import bradley_terry_strengths, rate, sum_of_ranks

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
