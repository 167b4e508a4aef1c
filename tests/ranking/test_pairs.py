"""
What lies behind a ranking: pairs of systems, spreads and cells, by pencil and property.

Differences, placings and lifts on tables that fit on a sheet of paper.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.ranking.intervals import Sampling
from parlai_ext.ranking.standings import (
    BINS,
    cell_means,
    flipped_pairs,
    lift,
    pair_differences,
    place_newcomer,
    rank_dimension,
    score_gap,
    spreads,
)
from tests.support.noise import noise

NAN = float('nan')


def pairs_of(values, systems='abcdef', **options):
    table = np.array(values, dtype=float)
    names = systems[: len(table)]
    ranked = options.pop('ranked', [True] * len(table))
    return pair_differences(table, names, ranked, Sampling(200, 0, **options))


def test_difference_and_win_rate_by_pencil():
    # gaps 1, 0, 2 and -1: mean 0.5, two wins, a tie and a loss: 2.5 of 4
    one = pairs_of([[[2, 3, 4, 0]], [[1, 3, 2, 1]]])['a', 'b']
    assert (one.difference, one.win_rate, one.n) == (0.5, 0.625, 4)


def test_the_difference_is_that_of_the_scores_and_wins_are_over_common_dialogues():
    # scores 6 and 3.5; over the one opener of both, 3 against 2
    one = pairs_of([[[9, 3, NAN]], [[NAN, 2, 5]]])['a', 'b']
    assert (one.difference, one.win_rate, one.n) == (2.5, 1.0, 1)
    assert one.low is None and one.high is None  # two openers of each show too little


def test_systems_without_a_dialogue_in_common_are_no_pair():
    assert pairs_of([[[1.0, NAN]], [[NAN, 2.0]]]) == {}


def test_the_reversed_pair_is_the_pair_of_exchanged_systems():
    values = noise(2, 3, 8)
    there = pairs_of(values)['b', 'a']
    back = pairs_of(values[::-1], 'ba')['b', 'a']
    assert there.win_rate == pytest.approx(back.win_rate)
    assert there.low < there.difference < there.high
    assert there.difference == pytest.approx(back.difference)


@settings(max_examples=4)
@given(st.integers(0, 30))
def test_told_apart_is_what_the_ranking_counts(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(4, 3, 6)) + np.arange(4)[:, None, None]
    about = {'ranked': [True] * 4, 'counts': [(18, 0)] * 4}
    _, separation = rank_dimension(values, 'abcd', Sampling(200, 0), **about)
    n_apart = sum(one.apart for one in pairs_of(values).values())
    assert n_apart == 2 * separation.n_apart  # a pair is there in either order


@settings(max_examples=8)
@given(st.integers(0, 200), st.sampled_from(['sampled', 'fixed']))
def test_two_systems_are_apart_exactly_where_their_interval_leaves_out_0(seed, kind):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(4, 2, 6)) + rng.normal(size=(4, 1, 1)) * 2
    values[rng.random(values.shape) < 0.1] = NAN
    for one in pairs_of(values, partners=kind).values():
        assert one.apart == (one.low > 0 or one.high < 0)
        assert one.low <= one.difference <= one.high


def test_nothing_is_told_apart_of_a_system_that_is_not_ranked():
    values = np.repeat([0.0, 5.0], 12).reshape(2, 2, 6)
    assert pairs_of(values)['a', 'b'].apart
    one = pairs_of(values, ranked=[True, False])['a', 'b']
    assert not one.apart and one.low is None


def test_over_one_partner_the_interval_is_about_it():
    values = noise(2, 1, 9, seed=1)
    sampled, fixed = (
        pairs_of(values, partners=kind)['a', 'b'].low for kind in ('sampled', 'fixed')
    )
    assert sampled == fixed is not None


def test_quantiles_of_a_hundred_and_one_dialogues():
    # 0 … 100: the quantile q is 100 q
    spread = spreads(np.arange(101.0)[None, None, :], ['a'])['a']
    assert spread.quantiles == pytest.approx((5, 25, 50, 75, 95))
    assert (spread.n, spread.lowest, spread.highest) == (101, 0, 100)


def test_every_dialogue_is_in_one_bin_of_a_scale_for_all():
    values = np.array([[[0.0, 0.1, NAN]], [[24.0, 23.5, 12.0]]])
    found = spreads(values, ['low', 'high'])
    # 24 bins from 0 to 24
    assert found['low'].counts == (2, *[0] * (BINS - 1))
    assert found['high'].counts[12] == 1 and found['high'].counts[-1] == 2


def test_a_system_without_scores_has_no_spread():
    assert spreads(np.array([[[NAN]], [[1.0]]]), ['a', 'b']).keys() == {'b'}
    assert spreads(np.full((1, 1, 1), NAN), ['a']) == {}


def test_cells_are_means_over_openers():
    values = np.array([[[1.0, 3.0], [NAN, NAN], [5.0, NAN]]])
    cells = cell_means(values, ['a'], ['x', 'y', 'z'])['a']
    assert {k: (c.mean, c.n) for k, c in cells.items()} == {'x': (2, 2), 'z': (5, 1)}


def test_flipped_pairs_are_those_that_change_places():
    before, after = np.array([3.0, 2.0, 1.0]), np.array([2.0, 3.0, 1.0])
    assert flipped_pairs(before, after) == [(0, 1)]
    assert flipped_pairs(after, before) == [(1, 0)]
    assert flipped_pairs(before, np.array([2.0, 2.0, 1.0])) == []  # a tie is no flip


@pytest.mark.parametrize('apart', [0, 0.5])
def test_a_constant_difference_has_no_width(apart):
    values = noise(1, 2, 6)
    result = score_gap(np.concatenate([values + apart, values]), Sampling(50, 0))
    assert (result.value, result.low, result.high) == pytest.approx((apart,) * 3)
    assert result.is_within(0, 0) != result.is_beyond(0, 0) == bool(apart)


def test_a_newcomer_stands_where_its_score_says():
    spread = np.linspace(-0.1, 0.1, 5)
    best, new, last = (np.array([score + spread] * 2) for score in (4, 3, 2))
    placed = place_newcomer(np.array([best, last]), new, Sampling(100, 0))
    assert (placed.rank, placed.beaten, placed.surely_beaten) == (2, (1,), (1,))
    assert placed.surely_better == (0,)
    score = placed.score
    assert score.low < 3 < score.high and score.value == pytest.approx(3)


def test_a_partner_that_is_good_for_one_system_lifts_it():
    more = np.array([[[2.0] * 4], [[1.0] * 4], [[1.0] * 4]])
    # means with both: 1, 0.5, 0.5; the first rises 0.5 more than the others; the second
    # falls behind their mean: 0.5 - (1 + 0.5) / 2
    for place, expected in ((0, 0.5), (1, -0.25)):
        result = lift(np.zeros((3, 1, 4)), more, place, Sampling(50, 0))
        assert result.value == pytest.approx(expected) and result.is_beyond(0, 0)
