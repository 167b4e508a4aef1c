"""
Ratings: against pencil, openskill, trueskill and scipy.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, stats

from parlai_ext.core.errors import UserError
from parlai_ext.ranking import ratings
from parlai_ext.ranking.bradley_terry import bradley_terry_strengths, win_matrix
from parlai_ext.ranking.ratings import rate, sum_of_ranks
from parlai_ext.tournament.games import Game, award_points

ALL = ('openskill', 'bradley_terry', '3-1-0', '2-1-0')


def won(winner, loser, id=''):
    return Game(winner, loser, {winner: {'a': 1.0}, loser: {'a': 0.0}}, id)


def drawn(one, other, id=''):
    return Game(one, other, {one: {'a': 1.0}, other: {'a': 1.0}}, id)


def pecking_order(names='ABCD'):
    """
    Each beats all that come later, both ways round.
    """
    pairs = list(itertools.combinations(names, 2))
    return award_points([won(a, b, f'{a}{b}{k}') for a, b in pairs for k in range(2)])


@pytest.mark.parametrize('win', [3, 2])
def test_football_points_are_those_on_paper(win):
    # A beats B, A ties C, B beats C
    games = [won('A', 'B'), drawn('A', 'C'), won('B', 'C')]
    rating = rate(award_points(games), f'{win}-1-0')
    assert rating.values == {'A': win + 1, 'B': win, 'C': 1}


def test_a_match_of_two_games_one_each_is_one_tie():
    rating = rate(award_points([won('A', 'B'), won('B', 'A')]), '3-1-0')
    assert rating.values == {'A': 1, 'B': 1}


@pytest.mark.parametrize('method', ALL)
def test_a_pecking_order_is_found(method):
    rating = rate(pecking_order(), method)
    assert rating.ranks() == {'A': 1, 'B': 2, 'C': 3, 'D': 4}


@pytest.mark.parametrize('method', ALL)
def test_a_system_without_a_game_has_no_rating_and_changes_no_other(method):
    results = award_points([won('A', 'B')], systems=('A', 'B', 'C'))
    rating = rate(results, method)
    assert rating.ranks() == {'A': 1, 'B': 2, 'C': None}
    assert rating.values['A'] == rate(award_points([won('A', 'B')]), method).values['A']


@pytest.mark.parametrize('method', ALL)
def test_ties_everywhere_rate_all_alike(method):
    games = [drawn(a, b) for a, b in itertools.permutations('ABC', 2)]
    assert len(set(rate(award_points(games), method).values.values())) == 1


def test_one_game_equals_openskill_itself():
    from openskill.models import ThurstoneMostellerFull

    model = ThurstoneMostellerFull()
    (a,), (b,) = model.rate([[model.rating()], [model.rating()]], ranks=[0, 1])
    rating = rate(award_points([won('A', 'B')]))
    assert rating.values == pytest.approx({'A': a.mu, 'B': b.mu}, abs=1e-9)
    assert rating.spreads == pytest.approx({'A': a.sigma, 'B': b.sigma}, abs=1e-9)


def test_one_game_equals_trueskill_itself():
    trueskill = pytest.importorskip('trueskill')
    a, b = trueskill.rate_1vs1(trueskill.Rating(), trueskill.Rating(), drawn=True)
    rating = rate(award_points([drawn('A', 'B')]), 'trueskill')
    assert rating.values == pytest.approx({'A': a.mu, 'B': b.mu}, abs=1e-9)
    assert rating.spreads == pytest.approx({'A': a.sigma, 'B': b.sigma}, abs=1e-9)


def test_openskill_ranks_a_pecking_order_of_seven_as_trueskill_does():
    pytest.importorskip('trueskill')
    results = pecking_order('ABCDEFG')
    mine, other = (rate(results, m).ranks() for m in ('openskill', 'trueskill'))
    assert mine == other


def test_the_average_of_shuffles_is_the_mean_of_single_ones(monkeypatch):
    orders = iter([[0, 1, 2], [2, 1, 0], [1, 0, 2]] + [[0, 1, 2], [2, 1, 0], [1, 0, 2]])

    class Rng:
        def permutation(self, size):
            return next(orders)

    monkeypatch.setattr(ratings.np.random, 'default_rng', lambda seed: Rng())
    results = award_points([won('A', 'B'), won('B', 'C'), won('C', 'A')])
    three = rate(results, shuffles=3).values['A']
    singles = [rate(results, shuffles=1).values['A'] for _ in range(3)]
    assert three == pytest.approx(math.fsum(singles) / 3)


def test_the_order_of_the_games_in_the_input_changes_nothing():
    games = [
        won(*pair, id=str(i))
        for i, pair in enumerate(['AB', 'BC', 'CA', 'AD', 'DB', 'CD'])
    ]
    assert rate(award_points(games)) == rate(award_points(games[::-1]))


def test_the_seed_is_signed_and_decides_the_shuffles():
    games = [won(*pair, id=pair) for pair in ('AB', 'BC', 'CA', 'AD', 'DB', 'CD')]
    zero, one = (rate(award_points(games), seed=seed) for seed in (0, 1))
    assert '|seed:0' in zero.signature and '|seed:1' in one.signature
    assert zero.values != one.values


def test_bradley_terry_of_two_is_the_log_of_the_odds():
    # 3 wins to 1: odds 3, strengths differ by log 3
    wins = np.array([[0, 3], [1, 0]])
    found = bradley_terry_strengths(wins, 'AB', prior=0)
    assert found['A'] - found['B'] == pytest.approx(math.log(3))


def test_the_prior_adds_half_wins_to_both():
    # 2 to 0 and half a win each: odds 2.5 / 0.5 = 5
    found = bradley_terry_strengths(np.array([[0, 2], [0, 0]]), 'AB', prior=0.5)
    assert found['A'] - found['B'] == pytest.approx(math.log(5))


def test_bradley_terry_is_the_maximum_that_scipy_finds():
    wins = np.array([[0, 3, 1, 2], [1, 0, 2, 2.5], [2, 1, 0, 1], [1, 1.5, 2, 0]])

    def loss(x):
        return np.sum(wins * np.log1p(np.exp(x[None, :] - x[:, None])))

    best = optimize.minimize(loss, np.zeros(4), tol=1e-12).x
    found = list(bradley_terry_strengths(wins, 'ABCD', prior=0).values())
    assert found == pytest.approx(list(best - best.mean()), abs=1e-5)


def test_bradley_terry_equals_evalica():
    evalica = pytest.importorskip('evalica')
    games = [
        (a, b, a if i % 3 else b)
        for i, (a, b) in enumerate(itertools.permutations('ABCD', 2))
    ]
    winners = [evalica.Winner.X if w == a else evalica.Winner.Y for a, _, w in games]
    xs, ys = [g[0] for g in games], [g[1] for g in games]
    theirs = evalica.bradley_terry(xs, ys, winners, tolerance=1e-12, limit=9999).scores
    mine = bradley_terry_strengths(win_matrix('ABCD', games), 'ABCD', prior=0)
    logs = {n: math.log(theirs[n]) for n in 'ABCD'}
    mean = sum(logs.values()) / 4
    # evalica stops at 1e-6 of its own scale
    assert mine == pytest.approx({n: x - mean for n, x in logs.items()}, abs=1e-3)


def test_without_a_prior_a_winner_of_all_is_undefined_by_name():
    rating = rate(pecking_order('ABC'), 'bradley_terry', prior=0)
    assert rating.reason.startswith('A won all games') and 'prior' in rating.reason
    assert set(rating.values.values()) == {None}


def test_two_who_won_all_but_never_met_are_undefined_without_a_prior():
    results = award_points([won('A', 'C'), won('B', 'C')])
    assert 'won all games' in rate(results, 'bradley_terry', prior=0).reason


@pytest.mark.parametrize('method', ['3-1-0', '2-1-0'])
def test_football_of_an_incomplete_tournament_is_undefined(method):
    rating = rate(award_points([won('A', 'B'), won('B', 'C')]), method)
    assert rating.reason == 'never met: A and C'
    assert set(rating.values.values()) == {None}


@pytest.mark.parametrize('method', ['openskill', 'bradley_terry'])
def test_skills_need_only_a_chain_of_games(method):
    rating = rate(award_points([won('A', 'B'), won('B', 'C')]), method)
    assert rating.ranks() == {'A': 1, 'B': 2, 'C': 3}
    assert '1 pairs never met' in rating.notes


@pytest.mark.parametrize(
    'method, words', [('openskill', 'join A, B'), ('bradley_terry', 'never met')]
)
def test_a_rating_of_two_islands_is_undefined(method, words):
    rating = rate(award_points([won('A', 'B'), won('C', 'D')]), method)
    assert words in rating.reason


@pytest.mark.parametrize('method', ALL)
def test_one_system_is_undefined(method):
    rating = rate(award_points([], systems=['A']), method)
    assert rating.values == {'A': None}
    assert rating.reason == '1 system; a tournament needs two or more'


def test_nobody_at_all_is_undefined():
    assert rate(award_points([])).reason == '0 system; a tournament needs two or more'


def test_an_unknown_rating_is_refused_with_the_known():
    with pytest.raises(UserError, match='known: openskill, trueskill, bradley_terry'):
        rate(pecking_order(), 'elo')


def test_a_missing_package_is_one_line_that_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'trueskill', None)
    with pytest.raises(UserError, match='pip install trueskill'):
        rate(pecking_order(), 'trueskill')


def test_sums_of_ranks_by_hand():
    # a: X 1, Y 2, Z 3; b: Y and Z share 1.5, X 3 → X 4, Y 3.5, Z 4.5
    raw = {
        'X': {'a': 9.0, 'b': 0.0},
        'Y': {'a': 5.0, 'b': 2.0},
        'Z': {'a': 1.0, 'b': 2.0},
    }
    assert sum_of_ranks(raw).values == {'X': -4, 'Y': -3.5, 'Z': -4.5}


def test_sums_of_ranks_agree_with_scipy():
    raw = np.random.default_rng(0).normal(size=(6, 4))
    given = {
        f's{i}': dict(zip('abcd', map(float, row), strict=True))
        for i, row in enumerate(raw)
    }
    expected = stats.rankdata(-raw, axis=0).sum(axis=1)
    assert list(sum_of_ranks(given).values.values()) == list(-expected)


def test_a_dimension_that_one_lacks_is_left_out_for_all_and_said():
    raw = {'X': {'a': 1.0, 'b': None}, 'Y': {'a': 2.0, 'b': 3.0}}
    rating = sum_of_ranks(raw)
    assert rating.values == {'X': -2, 'Y': -1}
    assert rating.notes == ('b left out: no raw score of X',)


def test_sums_of_ranks_of_one_system_are_undefined():
    assert sum_of_ranks({'X': {'a': 1.0}}).reason == '1 system; ranks need two or more'
