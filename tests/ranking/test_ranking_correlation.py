"""
Correlation with a reference: scipy as the oracle, and what cannot be known.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.ranking.agreement import (
    AnnotatorPanel,
    correlate_with_ranks,
    correlate_with_reference,
    kendall,
    mean_ranks,
    spearman,
)
from parlai_ext.ranking.intervals import Sampling

NAMES = ['a', 'b', 'c', 'd', 'e', 'f', 'g']


def table(means, noise=0.0, openers=10):
    rng = np.random.default_rng(1)
    return np.array(means)[:, None, None] + noise * rng.normal(
        size=(len(means), 2, openers)
    )


def correlated(values, names, reference):
    return correlate_with_reference(values, names, reference, Sampling(400, 0))


def judged(rows):
    return [HumanJudgement(system, 'overall', *rest) for system, *rest in rows]


few_levels = arrays(float, 8, elements=st.integers(0, 4).map(float))


@pytest.mark.parametrize(
    'ours, scipys', [(spearman, stats.spearmanr), (kendall, stats.kendalltau)]
)
@settings(max_examples=60, deadline=None)
@given(left=few_levels, right=few_levels)
def test_coefficients_are_scipys_ties_and_all(ours, scipys, left, right):
    if np.ptp(left) and np.ptp(right):
        expected = scipys(left, right).statistic
        assert ours(left[None], right[None])[0] == pytest.approx(expected)


@pytest.mark.parametrize('coefficient', [spearman, kendall])
def test_a_constant_side_has_no_coefficient(coefficient):
    assert np.isnan(coefficient(np.ones((1, 4)), np.arange(4.0)[None]))[0]


REFERENCE = dict(zip(NAMES, [3, 1, 2, 5, 4, 7, 6], strict=True))


def test_the_value_is_that_of_the_mean_scores():
    found = correlated(table([1, 2, 3, 4, 5, 6, 7]), NAMES, REFERENCE)
    # sum d^2 = 4 + 1 + 1 + 1 + 1 + 1 + 1 = 10: 1 - 60 / 336; 4 of 21 pairs turned
    assert found['spearman'].value == pytest.approx(1 - 60 / 336)
    assert found['kendall'].value == pytest.approx(1 - 2 * 4 / 21)
    assert found['kendall'].n == 7


@pytest.mark.parametrize('name', ['spearman', 'kendall'])
def test_the_interval_holds_the_value_and_is_not_empty(name):
    values = table([1, 2, 3, 4, 5, 6, 7], noise=1.0)
    found = correlated(values, NAMES, REFERENCE)[name]
    assert -1 <= found.low < found.value <= found.high <= 1


@pytest.mark.parametrize(
    'means, noise, reference, n, rho, reason',
    [
        ([1, 2, 3, 99], 0, {'a': 1, 'b': 2, 'c': 3}, 3, 1, 'too few'),  # d: a floor
        ([0, 1, 2, np.nan], 0, dict(zip('abcd', range(4), strict=True)), 3, 1, 'few'),
        ([1, 2], 0, {'a': 1, 'b': 2}, 2, None, '2 systems'),
        ([1, 1, 1], 0, {'a': 1, 'b': 2, 'c': 3}, 3, None, 'same score'),
        ([1, 2, 3], 0, {'a': 5, 'b': 5, 'c': 5}, 3, None, 'same reference'),
        # what has a value may have no interval
        (
            range(7),
            0,
            dict(zip(NAMES, range(7), strict=True)),
            7,
            1,
            'no resample changes the order',
        ),
        ([1, 2, 3], 3.0, {'a': 1, 'b': 2, 'c': 3}, 3, ..., 'too few'),
    ],
)
def test_what_is_left_out_or_undefined_has_a_reason(
    means, noise, reference, n, rho, reason
):
    found = correlated(table(means, noise), NAMES[: len(means)], reference)['spearman']
    assert (found.n, found.low, found.high) == (n, None, None)
    assert rho is ... or found.value == rho
    assert reason in found.reason


def test_the_order_of_systems_changes_nothing():
    values = table([1, 2, 3, 4, 5, 6, 7], noise=2.0)
    turned = correlated(values[::-1], NAMES[::-1], REFERENCE)
    assert turned == correlated(values, NAMES, REFERENCE)


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
    rng = np.random.default_rng(2)
    rows = []
    for rater in range(6):
        off = rng.permutation(7) * 30.0
        off -= off.mean()
        rows += [
            (name, reference[name] * 3 + sign * off[i], f'r{rater}{sign}')
            for sign in (-1, 1)  # raters in mirrored pairs: the means stay in order
            for i, name in enumerate(NAMES)
        ]
    values = table([0, 2, 1, 3, 4, 6, 5])
    calm = correlated(values, NAMES, reference)['kendall']
    torn = correlated(values, NAMES, judged(rows))['kendall']
    assert torn.value == calm.value and torn.low < calm.low


def test_raters_who_saw_all_systems_are_drawn_together():
    # two raters, 10 apart: every draw moves both systems alike
    rows = judged(
        [('a', 0.0, 'x'), ('b', 1.0, 'x'), ('a', 10.0, 'y'), ('b', 11.0, 'y')]
    )
    drawn = AnnotatorPanel.from_judgements(rows, ['a', 'b']).draw(
        200, np.random.default_rng(0)
    )
    assert np.allclose(drawn[:, 1] - drawn[:, 0], 1.0) and np.ptp(drawn[:, 0]) > 0


def test_judgements_without_rater_are_drawn_within_their_system():
    rows = judged([('a', 0.0), ('a', 1.0), ('b', 5.0)])
    drawn = AnnotatorPanel.from_judgements(rows, ['a', 'b']).draw(
        4000, np.random.default_rng(0)
    )
    # a: 0, 1/2 or 1 with chances 1/4, 1/2, 1/4; b has one judgement, always there
    shares = [np.mean(drawn[:, 0] == level) for level in (0.0, 0.5, 1.0)]
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=0.03)
    assert (drawn[:, 1] == 5.0).all()


@pytest.mark.parametrize(
    'values, ranks, tau',
    [
        ([9, 7, 5, 1], [1, 2, 3, 4], 1),
        # one swapped pair of 21 costs two
        ([6, 7, 5, 4, 3, 2, 1], range(7), 1 - 2 / 21),
        ([2, 2, 2], [1, 2, 3], 'all systems have the same rating'),
        ([1, 2, 3], [2, 2, 2], 'all systems have the same human rank'),
        ([4, 3], [], '0 systems have a rating and a human rank; 2 are needed'),
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


def test_mean_rank_skips_the_empty_cell():
    assert mean_ranks({'1': {'A': 1, 'B': 2}, '2': {'A': 3, 'B': None}}) == {
        'A': 2,
        'B': 2,
    }
