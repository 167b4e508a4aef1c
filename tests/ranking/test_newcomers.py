"""
Differences, placings and lifts on tables that fit on a sheet of paper.
"""

import numpy as np
import pytest

from parlai_ext.ranking.intervals import Sampling
from parlai_ext.ranking.pairs import (
    difference,
    flipped_pairs,
    lift,
    place_newcomer,
)


def test_flipped_pairs_are_those_that_change_places():
    before, after = np.array([3.0, 2.0, 1.0]), np.array([2.0, 3.0, 1.0])
    assert flipped_pairs(before, after) == [(0, 1)]
    assert flipped_pairs(after, before) == [(1, 0)]
    assert flipped_pairs(before, np.array([2.0, 2.0, 1.0])) == []  # a tie is no flip


@pytest.mark.parametrize('apart', [0, 0.5])
def test_a_constant_difference_has_no_width(apart):
    values = np.random.default_rng(0).normal(size=(1, 2, 6))
    result = difference(np.concatenate([values + apart, values]), Sampling(50, 0))
    assert (result.value, result.low, result.high) == pytest.approx((apart,) * 3)
    assert result.is_within(0, 0) == (not apart)
    assert result.is_beyond(0, 0) == bool(apart)


def test_a_newcomer_stands_where_its_score_says():
    spread = np.linspace(-0.1, 0.1, 5)
    values = np.array([[4 + spread, 4 + spread], [2 + spread, 2 + spread]])
    placed = place_newcomer(
        values, np.array([3 + spread, 3 + spread]), Sampling(100, 0)
    )
    assert (placed.rank, placed.beaten, placed.surely_beaten) == (2, (1,), (1,))
    assert placed.surely_better == (0,)
    assert placed.score == pytest.approx(3)
    assert placed.low < 3 < placed.high


def test_a_newcomer_that_leads_by_chance_is_not_surely_better():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(1, 2, 6))
    newcomer = values[0] + rng.normal(scale=2, size=(2, 6))
    placed = place_newcomer(values, newcomer + 0.01, Sampling(200, 0))
    assert placed.surely_beaten == ()


def test_a_partner_that_is_good_for_one_system_lifts_it():
    values = np.zeros((3, 1, 4))
    more = np.array([[[2.0] * 4], [[1.0] * 4], [[1.0] * 4]])
    # means with both: 1, 0.5, 0.5; the first rises 0.5 more than the others
    result = lift(values, more, 0, Sampling(50, 0))
    assert result.value == pytest.approx(0.5)
    assert result.is_beyond(0, 0) and not result.is_within(0, 0)
    # the second falls behind the mean of the others: 0.5 - (1 + 0.5) / 2
    assert lift(values, more, 1, Sampling(50, 0)).value == pytest.approx(-0.25)
