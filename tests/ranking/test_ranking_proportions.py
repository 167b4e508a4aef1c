"""
Wilson's interval, against scipy and a published value.
"""

import pytest
from scipy import stats

from parlai_ext.ranking.intervals import wilson_interval


@pytest.mark.parametrize('successes, n', [(0, 10), (3, 10), (40, 40), (166, 200)])
def test_it_is_the_interval_of_scipy(successes, n):
    other = stats.binomtest(successes, n).proportion_ci(0.95, 'wilson')
    assert wilson_interval(successes, n) == pytest.approx((other.low, other.high))


def test_half_successes_lie_between_whole_ones():
    low, high = wilson_interval(7.5, 10)
    assert wilson_interval(7, 10)[0] < low < wilson_interval(8, 10)[0]
    assert wilson_interval(7, 10)[1] < high < wilson_interval(8, 10)[1]


def test_nothing_has_no_interval():
    with pytest.raises(ValueError):
        wilson_interval(0, 0)
