"""
Coefficients of many resamples at once.

A resample is an array of weights: how often it holds each point. All resamples share
the values and their order, so that nothing is sorted or compared again for each. The
coefficients are those that `agreement` works out of the points themselves; NaN where a
side is constant.

Arrays of weights are ``[resample, point]``; the two sides are ``[point]``.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from parlai_ext.ranking.table import Floats

COLUMNS = 32  # resamples in the processor's cache at once
Places = npt.NDArray[np.int64]


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
    return np.where(flat, np.nan, cosine(products, squares_a, squares_b))


def weighted_spearman(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Spearman's rho of each resample, ties at mean ranks.
    """
    middle = (weights.sum(axis=1, keepdims=True) + 1) / 2
    a = weighted_ranks(left, weights) - middle
    b = weighted_ranks(right, weights) - middle
    return cosine(
        (weights * a * b).sum(axis=1),
        (weights * a * a).sum(axis=1),
        (weights * b * b).sum(axis=1),
    )


def weighted_kendall(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Kendall's tau-b of each resample, in the time of sorting the points.
    """
    a, b = (np.unique(side, return_inverse=True)[1] for side in (left, right))
    levels = [_pair_level(a >> bit, b) for bit in range(int(a.max()).bit_length())]
    taus = [np.zeros(0)]
    for start in range(0, len(weights), COLUMNS):
        columns = np.ascontiguousarray(weights[start : start + COLUMNS].T)
        agree = np.sum([agreement(columns) for agreement in levels], axis=0)
        taus.append(cosine(agree, _untied_pairs(a, columns), _untied_pairs(b, columns)))
    return np.concatenate(taus)


def _pair_level(a: Places, b: Places) -> Callable[[Floats], Floats]:
    """
    Return a function of weights ``[point, resample]``. It returns, for each resample,
    how many pairs of points both sides order alike, less those that they order
    differently: of the pairs whose ranks on the left first differ in the lowest bit of
    ``a``.

    The points of a block agree in all bits above it; those without the bit are lower.
    Both kinds stand in the order of block and rank on the right.
    """
    block, is_upper = a >> 1, a & 1 == 1
    key = block * (int(b.max()) + 1) + b  # block and rank on the right
    order = np.argsort(key, kind='stable')
    lower, upper = order[~is_upper[order]], order[is_upper[order]]
    # places among the lower points, one for each upper point: the begin and the end of
    # those in its block, and of those with the same rank on the right
    block_begin, block_end, tie_begin, tie_end = (
        np.searchsorted(side[lower], side[upper], end)
        for side in (block, key)
        for end in ('left', 'right')
    )

    def agreement(columns: Floats) -> Floats:
        before = np.zeros((len(lower) + 1, columns.shape[1]))
        np.cumsum(columns[lower], axis=0, out=before[1:])
        # lower points before the tie agree, those after it do not
        balance = before[tie_begin] + before[tie_end]
        balance -= before[block_begin]
        balance -= before[block_end]
        balance *= columns[upper]
        return np.asarray(balance.sum(axis=0))

    return agreement


def _untied_pairs(ranks: Places, columns: Floats) -> Floats:
    """
    Return how many pairs of each resample have different ranks.
    """
    order = np.argsort(ranks, kind='stable')
    starts = np.flatnonzero(np.diff(ranks[order], prepend=-1))
    tied = np.add.reduceat(columns[order], starts, axis=0)
    pairs: Floats = (columns.sum(axis=0) ** 2 - (tied**2).sum(axis=0)) / 2
    return pairs


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


def cosine(products: Floats, first: Floats, second: Floats) -> Floats:
    """
    Return the cosines of centred vectors from the sum of their products and those of
    their squares; NaN where one of these is 0.
    """
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.clip(products / np.sqrt(first * second), -1.0, 1.0)


WEIGHTED: Mapping[str, Callable[[Floats, Floats, Floats], Floats]] = {
    'pearson': weighted_pearson,
    'spearman': weighted_spearman,
    'kendall': weighted_kendall,
}
