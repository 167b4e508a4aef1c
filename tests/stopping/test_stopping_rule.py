"""
Stopping early: confidence sequences cover at every look, pairs are settled as they say,
and a plan names as many openers as that takes.
"""

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from benchmarks.stopping import is_wrong, simulate_ladder
from parlai_ext.ranking.standings import RankRange, fold_games, known_means
from parlai_ext.ranking.stopping_rule import (
    ERROR,
    FEWEST_TO_SETTLE,
    ORDER,
    TIE,
    Intervals,
    PairOutcome,
    critical_values,
    outcome_codes,
    pair_intervals,
    prior_variance,
    settle_pairs,
    settled_ranks,
)
from parlai_ext.stopping.looks import (
    SETTLED,
    SETTLED_IN_HALF,
    TIED,
    openers_of_fixed_run,
    openers_until_settled,
    plan_pairs,
    variance_range,
)
from tests.support.noise import noise


def bayes_factor(t, n, g):
    # noncentral t against t, effect sizes normal with variance g (Gönen et al. 2005)
    def weighted(effect):
        density = stats.nct.pdf(t, n - 1, effect * np.sqrt(n))
        return density * stats.norm.pdf(effect, 0, np.sqrt(g))

    ends = 8 * np.sqrt(g)
    total, _ = integrate.quad(weighted, -ends, ends, limit=200, points=[0.0])
    return total / stats.t.pdf(t, n - 1)


@pytest.mark.parametrize('n, error', [(12, 0.05), (30, 0.05), (30, 0.005)])
def test_at_its_end_the_bayes_factor_is_one_over_the_error(n, error):
    t = critical_values(np.array([n]), error)[0]
    assert bayes_factor(t, n, prior_variance(error)) == pytest.approx(1 / error)


def test_of_many_openers_it_is_the_asymptotic_confidence_sequence():
    # Waudby-Smith et al. 2024, theorem 2.2, with rho^2 = g and variance 1
    n, error = 10**6, 0.05
    v = n * prior_variance(error)
    reach = np.sqrt(2 * (v + 1) / v * np.log(np.sqrt(v + 1) / error))
    assert critical_values(np.array([n]), error)[0] == pytest.approx(reach, rel=1e-4)


def test_it_is_narrowest_where_it_should_be():
    error, n = 0.01, 100

    def reach(g):
        v = n * g
        return (v + 1) / v * np.log((v + 1) / error**2)

    best = optimize.minimize_scalar(reach, bounds=(1e-3, 10), method='bounded').x
    assert prior_variance(error) == pytest.approx(best, rel=1e-3)


def test_few_openers_leave_no_bound():
    assert np.isinf(critical_values(np.array([0, 1, 2]), 0.01)).all()


def intervals(lows, highs):
    lows, highs = np.array([lows], float), np.array([highs], float)
    counts, skewness = np.full(lows.shape, 50), np.zeros(lows.shape[1])
    return Intervals(((0, 1),), counts, (lows + highs) / 2, lows, highs, skewness)


@pytest.mark.parametrize(
    'lows, highs, codes',
    [
        ([0.1], [2], [1]),
        ([-2], [-0.1], [-1]),
        ([-0.2], [0.2], [2]),
        ([-0.4], [0.2], [0]),
        # what is settled stays so
        ([-9.0, -0.2, 0.1], [9.0, 0.2, 0.2], [0, 2, 2]),
    ],
)
def test_a_pair_is_settled_by_its_interval(lows, highs, codes):
    assert outcome_codes(intervals(lows, highs), 0.3).tolist() == [codes]


def test_nothing_is_settled_before_twenty_openers():
    scores = noise(2, 40) + np.array([[9.0], [0.0]])
    looks, _ = settle_pairs(scores, ['a', 'b'], [FEWEST_TO_SETTLE - 1, 40], 0.3)
    assert [look.n_open for look in looks] == [1, 0]


def far_apart_with_a_few_outliers(share):
    # differences 9, and 0 on every so many openers
    return np.array([np.arange(200) % share > 0, np.zeros(200)]) * 9.0


@pytest.mark.parametrize('share, settled', [(4, [0, 0, 0, 0]), (20, [1, 1, 0, 0])])
def test_skewed_differences_settle_nothing_before_160_openers(share, settled):
    # one in four: skewness (1 - 2 / 4) / sqrt(3 / 16) = 1.15; one in 20: 4.13
    scores = far_apart_with_a_few_outliers(share)
    looks, _ = settle_pairs(scores, ['a', 'b'], [40, 140, 160, 200], 0.1)
    assert [look.n_open for look in looks] == settled
    assert looks[0].skewness == pytest.approx(1.155 if share == 4 else 4.129, abs=1e-3)


def test_a_skewed_pair_holds_up_the_others():
    plain = noise(200, seed=5)
    scores = np.stack([plain, 5 - plain, far_apart_with_a_few_outliers(20)[0]])
    looks, _ = settle_pairs(scores, ['a', 'b', 'c'], [40, 160], 0.1)
    assert [look.counts for look in looks] == [False, True]
    assert looks[0].n_ordered == 0


def test_a_decision_does_not_see_later_openers():
    scores = noise(3, 100, seed=1) + np.arange(3)[:, None]
    early = pair_intervals(scores[:, :40], [20, 40], 0.01)
    late = pair_intervals(scores, [20, 40, 100], 0.01)
    for bound in ('lows', 'highs'):
        assert np.allclose(getattr(early, bound), getattr(late, bound)[:, :2])


def test_the_better_system_comes_first_and_openers_are_counted():
    scores = noise(2, 80, seed=2)
    scores[1] += 5
    scores[0, :10] = np.nan
    _, (pair,) = settle_pairs(scores, ['low', 'high'], [40, 80], 0.1)
    assert (pair.first, pair.second, pair.outcome) == ('high', 'low', ORDER)
    assert (pair.settled_at, pair.n_openers) == (40, 70)
    assert 0 < pair.low < pair.difference < pair.high


def test_equal_differences_leave_room_for_those_not_seen():
    # 20 openers, error 0.05: at most 1 - 0.05 ** (1 / 20) = 0.1391 of all are unlike
    scores = np.zeros((2, 20))
    scores[:, 10:] = 2.0  # scores lie between 0 and 2, differences are all 0
    _, (pair,) = settle_pairs(scores, ['a', 'b'], [20], margin=0.3)
    assert pair.high == pytest.approx(2 * 0.13911, rel=1e-3)
    assert pair.outcome == TIE
    assert settle_pairs(scores, ['a', 'b'], [20], margin=0.27)[0][0].n_open == 1


def test_an_opener_counts_once_however_many_partners_and_games():
    values = np.array([[[1.0, 2.0, 5.0, 4.0], [3.0, np.nan, 3.0, np.nan]]])
    # two games: openers 1 and 2 as first, then as second speaker
    assert known_means(fold_games(values, 2)).tolist() == [[3.0, 3.0]]
    assert known_means(fold_games(values, 1)).tolist() == [[2.0, 2.0, 4.0, 4.0]]


def test_ranks_follow_from_settled_pairs():
    def pair(first, second, outcome):
        return PairOutcome(first, second, outcome, 20, 20, 1.0, 0.5, 1.5)

    pairs = [pair('a', 'c', ORDER), pair('b', 'c', ORDER), pair('a', 'b', TIE)]
    ranks = settled_ranks(['a', 'b', 'c'], pairs)
    assert ranks == {'a': RankRange(1, 2), 'b': RankRange(1, 2), 'c': RankRange(3, 3)}


def test_one_system_has_no_pairs():
    [look], pairs = settle_pairs(np.ones((1, 40)), ['a'], [40], 0.3)
    assert pairs == () and look.n_open == 0


@pytest.mark.parametrize(
    'first, second, what, wrong',
    [
        ('1', '0', ORDER, True),
        ('0', '1', TIE, True),
        ('1', '2', TIE, False),
        ('1', '0', None, False),
    ],
)
def test_a_stop_is_wrong_by_order_or_by_a_tie_beyond_the_margin(
    first, second, what, wrong
):
    outcome = PairOutcome(first, second, what, 20, 20, 0.0, None, None)
    assert is_wrong(outcome, [1.0, 0.5, 0.5], 0.3) == wrong


def test_a_ladder_is_settled_with_less_than_half_of_600():
    outcome = simulate_ladder('ladder, steps of 0.5', 'normal', 40)
    assert outcome.wrong <= 0.05 and outcome.openers < 300


@pytest.mark.slow
@pytest.mark.parametrize('shape', ['normal', 'heavy', 'skewed', 'extreme'])
@pytest.mark.parametrize('ladder', ['ladder with two near-ties', 'all equal'])
def test_wrong_stops_are_five_per_cent_at_most(ladder, shape):
    assert simulate_ladder(ladder, shape, 1000).wrong <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize('shape', ['normal', 'heavy', 'skewed'])
def test_a_measured_ladder_saves_half(shape):
    assert simulate_ladder('ladder of real_demo', shape, 1000).openers <= 300


def test_tests_at_each_look_are_wrong_more_often():
    # otherwise the simulation could not show what the sequence is good for
    outcome = simulate_ladder('all equal', 'normal', 40)
    assert outcome.wrong_by_tests > 0.1 > outcome.wrong


@pytest.mark.slow
def test_the_sequence_covers_at_all_looks_together():
    rng, missed, worlds = np.random.default_rng(3), 0, 2000
    for _ in range(worlds):
        looks = range(20, 601, 20)
        seen = pair_intervals(rng.normal(size=(2, 600)), looks, 0.05)
        missed += seen.lows[0, -1] > 0 or seen.highs[0, -1] < 0
    # 5 % over an endless run, so less over 600
    assert 0.005 < missed / worlds < 0.05


# The number of openers that a plan names finds the difference as often as it says.

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
