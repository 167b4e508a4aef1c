"""
Correlations and variance shares, and the anchor of people, by pencil.
"""

import numpy as np
import pytest

from parlai_ext.judge_check.biases import rank_correlation, variance_share
from parlai_ext.judge_check.people import human_anchor


def test_the_variance_of_two_groups_without_spread_lies_between_them():
    assert variance_share(np.array([1.0, 1.0, 3.0, 3.0]), list('aabb')) == 1.0


def test_the_variance_of_groups_with_one_mean_lies_within_them():
    assert variance_share(np.array([1.0, 3.0, 1.0, 3.0]), list('aabb')) == 0.0


def test_a_share_by_hand():
    # means 1 and 4 of whole mean 2.5: between 4 · 1.5² = 9; within 4 · 1² = 4
    scores = np.array([0.0, 2.0, 3.0, 5.0])
    assert variance_share(scores, list('aabb')) == pytest.approx(9 / 13)


@pytest.mark.parametrize('scores, groups', [([1.0, 2.0], 'aa'), ([1.0, 1.0], 'ab')])
def test_one_group_or_no_variance_has_no_share(scores, groups):
    assert variance_share(np.array(scores), list(groups)) is None


def test_a_correlation_needs_ten_rows_and_variance():
    rising = np.arange(10.0)
    assert rank_correlation(rising, rising**3) == pytest.approx(1.0)
    assert rank_correlation(rising, -rising) == pytest.approx(-1.0)
    assert rank_correlation(rising[:9], rising[:9]) is None
    assert rank_correlation(rising, np.ones(10)) is None


def anchor(offset, n=10):
    people = {f'o{j}': {'D': float(j % 2)} for j in range(n)}
    replies = {f'o{j}': {'s': [{'D': j % 2 + offset + j / 100}]} for j in range(n)}
    return human_anchor('D', people, replies)


def test_a_system_far_above_people_is_named():
    # people's scores are 0 and 1, five times each: standard deviation 0.527
    found = anchor(1.0)
    assert found.people_mean == 0.5
    assert found.systems == {'s': pytest.approx(1.545)}
    assert 's (' in found.warning


@pytest.mark.parametrize('offset', [-1.0, 0.0, 0.2])
def test_a_system_about_as_good_as_people_is_no_warning(offset):
    assert anchor(offset).warning is None


def test_an_anchor_needs_ten_contexts():
    assert anchor(1.0, n=9) is None
