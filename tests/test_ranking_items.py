"""
Correlations over items, against scipy and by pencil.
"""

import numpy as np
import pytest
from scipy import stats

from parlai_ext.ranking.items import item_agreement, pearson


def sample(n=60, rho=0.6, seed=1):
    rng = np.random.default_rng(seed)
    return rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], size=n).T


def test_coefficients_are_those_of_scipy():
    left, right = np.round(sample(), 1)  # with ties
    found = item_agreement(left, right)
    assert found['spearman']['value'] == pytest.approx(stats.spearmanr(left, right)[0])
    assert found['pearson']['value'] == pytest.approx(stats.pearsonr(left, right)[0])


def test_intervals_are_those_of_scipy():
    data = sample(200)
    found = item_agreement(*data, bootstraps=9000)['pearson']
    other = stats.bootstrap(
        data,
        lambda a, b, axis: pearson(np.atleast_2d(a), np.atleast_2d(b)),
        paired=True,
        n_resamples=9000,
        method='percentile',
        random_state=2,
    ).confidence_interval
    bounds = [float(np.squeeze(b)) for b in other]
    assert [found['low'], found['high']] == pytest.approx(bounds, abs=0.01)


def test_the_same_seed_gives_the_same_interval():
    assert item_agreement(*sample(), seed=4) == item_agreement(*sample(), seed=4)


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
    found = item_agreement(left, right)
    assert reason in found['reason']
    assert found['pearson'] == {'value': None, 'low': None, 'high': None}


def test_resamples_without_spread_are_left_out():
    # one item of twenty differs: most resamples of a third lack it
    found = item_agreement([0] * 19 + [1], list(range(20)))
    assert -1 <= found['pearson']['low'] <= found['pearson']['high'] <= 1


def test_a_constant_side_has_no_pearson():
    # 0.1 has no exact mean: what rounding leaves must not be taken for spread
    assert np.isnan(pearson(np.full((1, 3), 0.1), np.array([[1.0, 2.0, 3.0]]))).all()
