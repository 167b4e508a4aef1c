"""
Agreement: of annotators among themselves, and of scores with them as correlations over
items, with a reference and with ranks. Published examples, scipy, nltk and pencil.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from parlai_ext.core import HumanJudgement
from parlai_ext.ranking.agreement import (
    COEFFICIENTS,
    WEIGHTED,
    AnnotatorPanel,
    agreement_of_halves,
    correlate_items,
    correlate_with_ranks,
    correlate_with_reference,
    fleiss_kappa,
    krippendorff_alpha,
    mean_ranks,
    near_median,
    pearson,
)
from parlai_ext.ranking.intervals import Sampling

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: four
# observers, twelve units; a dot is a missing value
OBSERVERS = {
    'A': '1 2 3 3 2 1 4 1 2 . . .',
    'B': '1 2 3 3 2 2 4 1 2 5 . 3',
    'C': '. 3 3 3 2 3 4 2 2 5 1 .',
    'D': '1 2 3 3 2 4 4 1 2 5 1 .',
}
PUBLISHED = {'nominal': 0.743, 'ordinal': 0.815, 'interval': 0.849, 'ratio': 0.797}


def units(observers):
    by_unit = {}
    for name, row in observers.items():
        for unit, cell in enumerate(row.split()):
            if cell != '.':
                by_unit.setdefault(unit, {})[name] = float(cell)
    return by_unit


@pytest.mark.parametrize('level', PUBLISHED)
def test_alpha_is_that_of_krippendorffs_example(level):
    alpha = krippendorff_alpha(units(OBSERVERS), level)
    assert alpha.value == pytest.approx(PUBLISHED[level], abs=5e-4)
    assert (alpha.num_units, alpha.num_annotators) == (11, 4)


def test_values_near_their_median_are_kept():
    # the example of Zhao et al.'s program: [1, 2, 1, 5] becomes [1, 2, 1]
    assert near_median([1, 2, 1, 5], 1) == [True, True, True, False]
    # 5 is 3.5 from the median 1.5, a deviation is 1.4826 * 0.5: 4.72 of them
    assert near_median([1, 2, 1, 5], 4.7)[-1] is False
    assert near_median([1, 2, 1, 5], 4.8)[-1] is True
    assert near_median([], 1) == []


def test_two_annotators_are_the_halves():
    # ranks 1 2 3 4 against 1 2 4 3: rho = 1 - 6 * 2 / (4 * 15) = 0.8
    given = {'A': '1 2 3 4', 'B': '1 2 9 3'}
    halves = agreement_of_halves(units(given), {k: k for k in range(4)})
    assert halves.value == pytest.approx(0.8)
    assert (halves.low, halves.high) == (pytest.approx(0.8), pytest.approx(0.8))


def test_means_of_points_are_compared():
    # two units a point: A has means 1.5, 3.5, 5.5 and B 1, 2, 3
    given = {'A': '1 2 3 4 5 6', 'B': '2 0 3 1 4 2'}
    points = {unit: unit // 2 for unit in range(6)}
    assert agreement_of_halves(units(given), points).value == pytest.approx(1.0)


@pytest.mark.parametrize('given', [{'A': '1 2 3'}, {'A': '1 1 1', 'B': '1 2 3'}])
def test_halves_say_why_they_are_not_known(given):
    halves = agreement_of_halves(units(given), {k: k for k in range(3)})
    assert halves.value is None
    assert halves.reason


# Fleiss (1971), table 1: how many of six psychiatrists gave each of five diagnoses
DIAGNOSES = """
00060 03003 01401 00006 03030 20400 00402 20310 20040 00006
10050 11040 03300 10050 02031 00501 30012 51000 02040 10203
00006 01050 02013 20040 10041 05010 40002 02040 10500 00006
"""


def from_counts(rows):
    """
    Return annotations in which each row has these numbers of the values 0, 1, ….
    """
    given = {}
    for unit, row in enumerate(rows):
        values = [float(v) for v, n in enumerate(row) for _ in range(int(n))]
        given[unit] = {str(k): value for k, value in enumerate(values)}
    return given


def test_kappa_is_that_of_fleiss_example():
    given = from_counts(DIAGNOSES.split())
    kappa = fleiss_kappa(given)
    assert kappa.value == pytest.approx(0.430, abs=5e-4)
    assert (kappa.num_units, kappa.num_annotators) == (30, 6)
    assert kappa.low < 0.430 < kappa.high


def test_kappa_takes_units_with_different_numbers_of_annotators():
    # agreeing pairs 1/1, 1/3; answers 0: 4 of 5, so chance 0.64 + 0.04
    given = {0: {'A': 0.0, 'B': 0.0}, 1: {'A': 0.0, 'B': 0.0, 'C': 1.0}}
    given[2] = {'A': 1.0}  # one annotation says nothing
    kappa = fleiss_kappa(given)
    assert kappa.value == pytest.approx((2 / 3 - 0.68) / (1 - 0.68))
    assert kappa.num_units == 2


def test_a_group_of_units_is_drawn_as_one():
    given = from_counts(DIAGNOSES.split())
    twice = {(k, unit): one for k in (0, 1) for unit, one in given.items()}
    grouped = fleiss_kappa(twice, {unit: unit[1] for unit in twice})
    single, apart = fleiss_kappa(given), fleiss_kappa(twice)
    assert grouped.high - grouped.low == pytest.approx(single.high - single.low)
    assert apart.high - apart.low < 0.8 * (single.high - single.low)


@pytest.mark.parametrize('measure', [fleiss_kappa, krippendorff_alpha])
@pytest.mark.parametrize(
    'given', [{}, {'A': '1 .', 'B': '. 2'}, {'A': '1'}, {'A': '1 1', 'B': '1 1'}]
)
def test_agreement_needs_two_annotators_of_one_unit_and_two_answers(measure, given):
    found = measure(units(given))
    assert found.value is None
    assert found.reason


# Correlations over items, with a reference and with ranks: scipy as the oracle,
# pencil, and what cannot be known.

NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
REFERENCE = dict(zip(NAMES, [3, 1, 2, 5, 4, 7, 6], strict=True))
SCIPY = {
    'pearson': stats.pearsonr,
    'spearman': stats.spearmanr,
    'kendall': stats.kendalltau,
}


def table(means, noise=0.0):
    rng = np.random.default_rng(1)
    return np.array(means)[:, None, None] + noise * rng.normal(size=(len(means), 2, 10))


def correlated(values, names, reference):
    return correlate_with_reference(values, names, reference, Sampling(400, 0))


def judged(rows):
    return [HumanJudgement(system, 'overall', *rest) for system, *rest in rows]


few_levels = arrays(float, 8, elements=st.integers(0, 4).map(float))


@pytest.mark.parametrize('name', ['spearman', 'kendall'])
@settings(max_examples=30)
@given(left=few_levels, right=few_levels)
def test_coefficients_are_scipys_ties_and_all(name, left, right):
    if np.ptp(left) and np.ptp(right):
        expected = SCIPY[name](left, right).statistic
        ours = COEFFICIENTS[name](left[None], right[None])
        assert ours[0] == pytest.approx(expected)


@pytest.mark.parametrize('name', SCIPY)
def test_a_constant_side_has_no_coefficient(name):
    # 0.1 has no exact mean or square: what rounding leaves must not pass for spread
    left, right = np.array([0.1, 0.1, 0.7]), np.arange(3.0)
    values = WEIGHTED[name](left, right, np.array([[2.0, 3.0, 0.0], [1.0] * 3]))
    assert np.isnan(values).tolist() == [True, False]
    assert np.isnan(COEFFICIENTS[name](np.full((1, 3), 0.1), right[None])).all()


# ------------------------------------------------------------- systems, a reference


def test_intervals_hold_the_value_and_the_order_of_systems_changes_nothing():
    values = table([1, 2, 3, 4, 5, 6, 7], noise=1.0)
    found = correlated(values, NAMES, REFERENCE)
    for one in found.values():
        assert -1 <= one.low < one.value <= one.high <= 1
    assert correlated(values[::-1], NAMES[::-1], REFERENCE) == found


@pytest.mark.parametrize(
    'means, noise, reference, n, rho, reason',
    [
        ([1, 2, 3, 99], 0, [1, 2, 3], 3, 1, 'too few'),  # d: a floor
        ([0, 1, 2, np.nan], 0, range(4), 3, 1, 'few'),
        ([1, 2], 0, [1, 2], 2, None, '2 systems'),
        ([1, 1, 1], 0, [1, 2, 3], 3, None, 'same score'),
        ([1, 2, 3], 0, [5, 5, 5], 3, None, 'same reference'),
        # what has a value may have no interval
        (range(7), 0, range(7), 7, 1, 'no resample changes the order'),
        ([1, 2, 3], 3.0, [1, 2, 3], 3, ..., 'too few'),
    ],
)
def test_what_is_left_out_or_undefined_has_a_reason(
    means, noise, reference, n, rho, reason
):
    reference = dict(zip(NAMES, reference, strict=False))
    found = correlated(table(means, noise), NAMES[: len(means)], reference)['spearman']
    assert (found.n, found.low, found.high) == (n, None, None)
    assert rho is ... or found.value == rho
    assert reason in found.reason


def test_human_reference_is_the_mean_judgement():
    # a: 1 and 4 -> 2.5, b: 2, c: 3: order b, a, c against a, b, c
    rows = judged([('a', 1.0), ('a', 4.0), ('b', 2.0), ('c', 3.0)])
    found = correlated(table([1, 2, 3]), NAMES[:3], rows)
    assert found['spearman'].value == pytest.approx(0.5)


def test_the_order_of_judgements_changes_nothing():
    rng = np.random.default_rng(0)
    rows = judged([(n, float(rng.normal() + i)) for i, n in enumerate(NAMES * 3)])
    values = table([1, 2, 3, 4, 5, 6, 7], noise=1.0)
    there, back = (correlated(values, NAMES, one) for one in (rows, rows[::-1]))
    assert there == back


def test_raters_who_disagree_widen_the_interval():
    reference = dict(zip(NAMES, range(7), strict=True))
    rows = [
        # two raters whose means are in order
        (name, place + sign * 30 * (place % 2), f'r{sign}')
        for sign in (-1, 1)
        for name, place in reference.items()
    ]
    values = table([0, 2, 1, 3, 4, 6, 5])
    calm = correlated(values, NAMES, reference)['kendall']
    torn = correlated(values, NAMES, judged(rows))['kendall']
    assert torn.value == calm.value and torn.low < calm.low


def drawn_of(rows, draws):
    panel = AnnotatorPanel(judged(rows), ['a', 'b'])
    return panel.draw(draws, np.random.default_rng(0)).T


def test_raters_who_saw_all_systems_are_drawn_together_others_within_their_system():
    # two raters, 10 apart: every draw moves both systems alike
    a, b = drawn_of(
        [('a', 0.0, 'x'), ('b', 1.0, 'x'), ('a', 10.0, 'y'), ('b', 11.0, 'y')], 200
    )
    assert np.allclose(b - a, 1.0) and np.ptp(a) > 0
    a, b = drawn_of([('a', 0.0), ('a', 1.0), ('b', 5.0)], 4000)
    # a: 0, 1/2 or 1 with chances 1/4, 1/2, 1/4; b has one judgement, always there
    shares = [np.mean(a == level) for level in (0.0, 0.5, 1.0)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    assert (b == 5.0).all()


# ----------------------------------------------------------------- ratings, human ranks


@pytest.mark.parametrize(
    'values, ranks, tau',
    [
        ([9, 7, 5, 1], [1, 2, 3, 4], 1),
        # one swapped pair of 21 costs two
        ([6, 7, 5, 4, 3, 2, 1], range(7), 1 - 2 / 21),
        ([2, 2, 2], [1, 2, 3], 'all systems have the same rating'),
        ([1, 2, 3], [2, 2, 2], 'all systems have the same human rank'),
        ([4, 3], [2], '1 system has a rating and a human rank; 2 are needed'),
    ],
)
def test_larger_values_go_with_smaller_ranks(values, ranks, tau):
    sides = (dict(zip(NAMES, side, strict=False)) for side in (values, ranks))
    found = correlate_with_ranks(*sides)
    assert (found.reason or found.value) == pytest.approx(tau)


def test_a_system_without_human_rank_is_left_out_by_name():
    values = {'A': 4, 'B': 3, 'C': 2, 'D': 1}
    found = correlate_with_ranks(values, {'A': 1, 'B': 2, 'C': None})
    assert (found.value, found.n) == (1, 2)
    assert found.notes == ('no human rank: C, D',)
    # and a mean rank skips the empty cell
    ranks = mean_ranks({'1': {'A': 1, 'B': 2}, '2': {'A': 3, 'B': None}})
    assert ranks == {'A': 2, 'B': 2}


# ------------------------------------------------------------------------------- items


def sample(n):
    rng = np.random.default_rng(1)
    return rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=n).T


def test_intervals_are_those_of_scipy():
    data = sample(200)
    found = correlate_items(*data, Sampling(9000, 0))['pearson']
    other = stats.bootstrap(
        data,
        lambda a, b, axis: pearson(np.atleast_2d(a), np.atleast_2d(b)),
        paired=True,
        n_resamples=9000,
        method='percentile',
        random_state=2,
    ).confidence_interval
    bounds = [float(np.squeeze(b)) for b in other]
    assert [found.low, found.high] == pytest.approx(bounds, abs=0.01)


def test_groups_are_drawn_together():
    # every item three times: three times the items, and no more is known
    sides = [np.repeat(side, 3) for side in sample(40)]
    thrice = correlate_items(*sides, groups=np.repeat(range(40), 3))
    once, alone = correlate_items(*sample(40)), correlate_items(*sides)
    for name in ('spearman', 'pearson'):
        one, same, narrow = (found[name] for found in (once, thrice, alone))
        assert [same.value, same.low, same.high] == pytest.approx(
            [one.value, one.low, one.high], abs=1e-9
        )
        # sqrt(3) = 1.7 times too narrow
        assert narrow.high - narrow.low < 0.75 * (one.high - one.low)


@pytest.mark.parametrize(
    'left, right, reason',
    [
        ([1, 2], [1, 2], '2 items have a score and a human value; 3 are needed'),
        ([1, 2, 3], [4, 4, 4], 'all items have the same human value'),
        ([], [], '0 items'),
    ],
)
def test_no_correlation_has_a_reason(left, right, reason):
    found = correlate_items(left, right)['pearson']
    assert reason in found.reason
    assert (found.value, found.low, found.high) == (None, None, None)


def test_resamples_without_spread_are_left_out():
    # one item of twenty differs: most resamples of a third lack it
    found = correlate_items([0] * 19 + [1], range(20))
    assert -1 <= found['pearson'].low <= found['pearson'].high <= 1


def test_three_groups_have_no_interval():
    # 6 of 27 resamples of three hold all three of them; two points lie on a line
    sides = [1.0, 2, 3] * 4, [1.0, 3, 2] * 4
    found = correlate_items(*sides, groups=[*range(3)] * 4)['spearman']
    assert found.value == pytest.approx(0.5) and found.low is None
    assert 'too few different items' in found.reason


@pytest.mark.parametrize('name', SCIPY)
def test_a_weighted_coefficient_is_that_of_repeated_points(name):
    rng = np.random.default_rng(0)
    left, right = np.round(rng.normal(size=(2, 40)), 1)  # with ties
    weights = rng.integers(0, 4, size=(5, 40)).astype(float)
    expected = [
        SCIPY[name](*(np.repeat(side, row.astype(int)) for side in (left, right)))[0]
        for row in weights
    ]
    assert WEIGHTED[name](left, right, weights) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize('digits', [1, 9])
def test_kendall_of_many_points_and_resamples(digits):
    rng = np.random.default_rng(1)
    left = np.round(rng.normal(size=1100), digits)
    right = np.round(left + rng.normal(size=1100), digits)
    taus = WEIGHTED['kendall'](left, right, np.ones((70, 1100)))
    assert taus == pytest.approx([stats.kendalltau(left, right)[0]] * 70)
