"""
Correlations over items, against scipy and by pencil.
"""

import numpy as np
import pytest
from scipy import stats

from parlai_ext.ranking.agreement import correlate_items, pearson


def sample(n=60, rho=0.6, seed=1):
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n).T


def test_intervals_are_those_of_scipy():
    data = sample(200)
    found = correlate_items(*data, bootstraps=9000)['pearson']
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
    left, right = sample(40)
    once = correlate_items(left, right)
    thrice = correlate_items(
        np.repeat(left, 3), np.repeat(right, 3), groups=np.repeat(range(40), 3).tolist()
    )
    for name in ('spearman', 'pearson'):
        found, expected = thrice[name], once[name]
        assert (found.value, found.low, found.high) == pytest.approx(
            (expected.value, expected.low, expected.high), abs=1e-9
        )
    alone = correlate_items(np.repeat(left, 3), np.repeat(right, 3))['pearson']
    width = once['pearson'].high - once['pearson'].low
    # sqrt(3) = 1.7 times too narrow
    assert alone.high - alone.low < 0.75 * width


@pytest.mark.parametrize(
    ('left', 'right', 'reason'),
    [
        ([1, 2], [1, 2], '2 items have a score and a human value; 3 are needed'),
        ([0.1, 0.1, 0.1], [1, 2, 3], 'all items have the same score'),
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
    found = correlate_items([0] * 19 + [1], list(range(20)))
    assert -1 <= found['pearson'].low <= found['pearson'].high <= 1


def test_three_groups_have_no_interval():
    # 6 of 27 resamples of three hold all three of them; two points lie on a line
    left, right = [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]
    for copies in (1, 4):
        groups = np.repeat(range(3), copies).tolist()
        found = correlate_items(
            np.repeat(left, copies), np.repeat(right, copies), groups=groups
        )
        assert found['spearman'].value == pytest.approx(0.5)
        assert found['spearman'].low is None
        assert 'too few different items' in found['spearman'].reason


def test_a_constant_side_has_no_pearson():
    # 0.1 has no exact mean: what rounding leaves must not be taken for spread
    assert np.isnan(pearson(np.full((1, 3), 0.1), np.array([[1.0, 2.0, 3.0]]))).all()
