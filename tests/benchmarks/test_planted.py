"""
Agreement of scores with a planted order.
"""

from math import isnan

import pytest

from benchmarks.support.planted import right_pairs, spearman

PLANTED = {'worst': 1, 'middle': 2, 'good': 3, 'best': 4}


def test_the_planted_order_itself_agrees():
    assert spearman(PLANTED, PLANTED) == pytest.approx(1)
    assert right_pairs(PLANTED, PLANTED) == 1


def test_one_pair_of_six_is_wrong():
    # ranks 1 2 4 3: the sum of squared differences is 2, so 1 - 6 * 2 / (4 * 15) = 0.8
    scores = {'worst': 0.1, 'middle': 0.2, 'good': 0.9, 'best': 0.8}
    assert spearman(scores, PLANTED) == pytest.approx(0.8)
    assert right_pairs(scores, PLANTED) == pytest.approx(5 / 6)


def test_a_constant_agrees_with_nothing():
    scores = dict.fromkeys(PLANTED, 0.0)
    assert isnan(spearman(scores, PLANTED))
    assert right_pairs(scores, PLANTED) == 0.5
