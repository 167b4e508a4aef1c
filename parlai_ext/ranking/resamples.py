"""
Coefficients of many resamples at once.

A resample is an array of weights: how often it holds each point. All resamples share
the values and their order, so that nothing is sorted or compared again for each. The
coefficients are those that `agreement` works out of the points themselves; NaN where a
side is constant.

Arrays of weights are ``[resample, point]``; the two sides are ``[point]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from parlai_ext.ranking.table import Floats

ROWS = 512  # points whose pairs are in memory at once


def weighted_pearson(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Pearson's r of each resample.
    """
    flat = _is_constant(left, weights) | _is_constant(right, weights)
    # near 0 the sums of squares keep their digits
    a, b = left - left.mean(), right - right.mean()
    total = weights.sum(axis=1)
    mean_a, mean_b = weights @ a / total, weights @ b / total
    products = weights @ (a * b) / total - mean_a * mean_b
    squares_a = weights @ (a * a) / total - mean_a**2
    squares_b = weights @ (b * b) / total - mean_b**2
    return np.where(flat, np.nan, _ratio(products, squares_a, squares_b))


def weighted_spearman(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Spearman's rho of each resample, ties at mean ranks.
    """
    middle = (weights.sum(axis=1, keepdims=True) + 1) / 2
    a = weighted_ranks(left, weights) - middle
    b = weighted_ranks(right, weights) - middle
    return _ratio(
        (weights * a * b).sum(axis=1),
        (weights * a * a).sum(axis=1),
        (weights * b * b).sum(axis=1),
    )


def weighted_kendall(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Kendall's tau-b of each resample.
    """
    # whole numbers below 2 ** 24, which single precision holds exactly
    columns = np.ascontiguousarray(weights.T, dtype=np.float32)
    agree, first, second = (np.zeros(len(weights)) for _ in range(3))
    for start in range(0, len(left), ROWS):
        rows = slice(start, start + ROWS)
        a = np.sign(left[rows, None] - left[None, :]).astype(np.float32)
        b = np.sign(right[rows, None] - right[None, :]).astype(np.float32)
        own = columns[rows].astype(np.float64)
        agree += (own * ((a * b) @ columns)).sum(axis=0)
        first += (own * ((a * a) @ columns)).sum(axis=0)
        second += (own * ((b * b) @ columns)).sum(axis=0)
    return _ratio(agree, first, second)


def weighted_ranks(side: Floats, weights: Floats) -> Floats:
    """
    Return ``[resample, point]``: the mean rank of each point's value, from 1.
    """
    _, group, sizes = np.unique(side, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind='stable')
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    in_group = np.add.reduceat(weights[:, order], starts, axis=1)
    below = np.cumsum(in_group, axis=1) - in_group
    ranks: Floats = (below + (in_group + 1) / 2)[:, group]
    return ranks


def _is_constant(side: Floats, weights: Floats) -> npt.NDArray[np.bool_]:
    """
    Return, for each resample, whether its points have one value.
    """
    drawn = weights > 0
    high = np.where(drawn, side, -np.inf).max(axis=1)
    low = np.where(drawn, side, np.inf).min(axis=1)
    return np.asarray(high == low)


def _ratio(products: Floats, first: Floats, second: Floats) -> Floats:
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.clip(products / np.sqrt(first * second), -1.0, 1.0)


WEIGHTED: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    'pearson': weighted_pearson,
    'spearman': weighted_spearman,
    'kendall': weighted_kendall,
}
