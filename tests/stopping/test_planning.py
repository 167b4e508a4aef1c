"""
The number of openers that a plan names finds the difference as often as it says.
"""

import numpy as np
import pytest
from scipy import stats

from parlai_ext.ranking.stopping_rule import ERROR, outcome_codes, pair_intervals
from parlai_ext.stopping.looks import (
    SETTLED,
    SETTLED_IN_HALF,
    TIED,
    openers_of_fixed_run,
    openers_until_settled,
    plan_pairs,
    variance_range,
)

N_PAIRS, DIFFERENCE, SPREAD = 3, 0.25, 1.0


def share_settled(n_openers, code, *, difference):
    """
    Return how often a pair is settled so by the last look, looking every 20 openers.
    """
    rng = np.random.default_rng(4)
    looks = sorted({*range(20, n_openers, 20), n_openers})
    hits = 0
    for _ in range(300):
        scores = np.zeros((2, n_openers))
        scores[0] = difference + SPREAD * rng.normal(size=n_openers)
        seen = pair_intervals(scores, looks, ERROR / N_PAIRS)
        hits += outcome_codes(seen, DIFFERENCE)[0, -1] == code
    return hits / 300


# a run may settle at any look up to the last, so a little more often than planned
@pytest.mark.parametrize(
    'errors, code, difference, share, off',
    [
        (SETTLED, 1, DIFFERENCE, 0.8, 0.08),
        (SETTLED_IN_HALF, 1, DIFFERENCE, 0.5, 0.12),
        (TIED, 2, 0.0, 0.8, 0.08),
    ],
)
def test_by_then_such_a_share_of_the_runs_has_settled(
    errors, code, difference, share, off
):
    n_openers = openers_until_settled(DIFFERENCE, SPREAD, N_PAIRS, errors)
    found = share_settled(n_openers, code, difference=difference)
    assert found == pytest.approx(share, abs=off)


def test_a_fixed_run_needs_what_the_t_test_needs():
    # power 0.8 of a t test at Šidák's level, by scipy's noncentral t
    n = openers_of_fixed_run(DIFFERENCE, SPREAD, N_PAIRS)
    level = 1 - 0.95 ** (1 / N_PAIRS)
    bound = stats.t.isf(level / 2, n - 1)
    power = stats.nct.sf(bound, n - 1, DIFFERENCE / SPREAD * np.sqrt(n))
    assert power == pytest.approx(0.8, abs=0.03)


def test_a_tiny_difference_has_no_number():
    assert openers_until_settled(1e-6, SPREAD, N_PAIRS) is None


def test_pairs_are_planned_by_their_spread_closest_first():
    scores = np.array([[0.0, 2.0, 4.0, 2.0], [0.0, 0.0, 0.0, 0.0], [9.0, 9, 9, 9]])
    plans = plan_pairs(scores, ['a', 'b', 'c'], difference=1.0)
    assert [(p.first, p.second) for p in plans] == [('a', 'b'), ('c', 'a'), ('c', 'b')]
    # a - b: 0, 2, 4, 2: mean 2, variance 8 / 3
    assert (plans[0].observed, plans[0].spread) == pytest.approx((2, (8 / 3) ** 0.5))
    assert plans[0].difference == 1.0
    observed = plan_pairs(scores, ['a', 'b', 'c'])
    assert [p.difference for p in observed] == [2, 7, 9]


def test_the_variance_of_a_pilot_is_known_so_well():
    # chi-squared with 9 degrees of freedom: 10 % below 4.168, 10 % above 14.684
    assert variance_range(10) == pytest.approx((9 / 14.684, 9 / 4.168), rel=1e-3)


def test_a_skewed_pilot_settles_nothing_before_160_openers():
    # the first is 9 ahead, and on every tenth opener 0: skewness of one in ten, 2.67
    scores = np.array([[0.0, *[9.0] * 9] * 4, [0.0] * 40])
    (plan,) = plan_pairs(scores, ['a', 'b'])
    assert plan.sequential == plan.sequential_half == 160
    assert plan.fixed < 160
