"""
Coefficients of weighted points are those of the same points written out.
"""

import numpy as np
import pytest
from scipy import stats

from parlai_ext.ranking.agreement import group_weights
from parlai_ext.ranking.resamples import WEIGHTED

SCIPY = {
    'pearson': stats.pearsonr,
    'spearman': stats.spearmanr,
    'kendall': stats.kendalltau,
}


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


@pytest.mark.parametrize('name', SCIPY)
def test_a_resample_of_one_value_has_no_coefficient(name):
    # 0.1 has no exact square: what rounding leaves must not be taken for spread
    left, right = np.array([0.1, 0.1, 0.7]), np.array([1.0, 2.0, 3.0])
    values = WEIGHTED[name](left, right, np.array([[2.0, 3.0, 0.0], [1.0, 1.0, 1.0]]))
    assert np.isnan(values).tolist() == [True, False]


@pytest.mark.parametrize('digits', [1, 9])
def test_kendall_of_many_points_and_resamples(digits):
    rng = np.random.default_rng(1)
    left = np.round(rng.normal(size=1100), digits)
    right = np.round(left + rng.normal(size=1100), digits)
    taus = WEIGHTED['kendall'](left, right, np.ones((70, 1100)))
    assert taus == pytest.approx([stats.kendalltau(left, right)[0]] * 70)


def test_items_of_a_group_have_one_weight():
    [weights] = group_weights(['b', 'a', 'b', 'c', 'a'], 50, 0)
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, 1] == weights[:, 4]).all()
    # three groups are drawn each time, and three different ones are in what is left
    assert (weights[:, [0, 1, 3]] == 1).all()
