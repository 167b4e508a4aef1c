"""
Which of several scorers agrees better with people, and which cannot be told apart; how
well detectors find what people flagged.

Scorers have scored the same items. `rank_products` turns the scores of one into numbers
whose sum over items is Spearman's rho with people, so that a difference of two
correlations is a sum over items too, and over contexts. `swap_tests` is the paired
permutation test of that sum: under the null hypothesis it does not matter which of the
two scorers a context's scores came from, so that the context's part of the sum has a
random sign. Items of a context are swapped together, because they are alike.

`williams_test` is the classical test for Pearson's r of independent points; it is used
where points are drawn one by one.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations, compress, product
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy

from parlai_ext.core import frozen, grouped
from parlai_ext.ranking.intervals import (
    SAMPLING,
    Bools,
    Estimate,
    Floats,
    Sampling,
    draw_groups,
    draw_means,
    known_intervals,
    percentile_ends,
    wilson_interval,
)
from parlai_ext.ranking.standings import ranks_by_score, tied_groups

PERMUTATIONS = 10_000
MAX_ENUMERATED = 13  # parts whose sign changes are all enumerated, not drawn
CHUNK = 1000
HALVES = 30  # random halves of the annotators
LEVEL = 0.05
Row = TypeVar('Row', bound=Any)  # a dataclass of a compared pair


def standard_ranks(values: Sequence[float] | Floats) -> Floats:
    """
    Return mean ranks with mean 0 and sum of squares 1; NaN where all are equal.
    """
    ranks = scipy.stats.rankdata(np.asarray(values, dtype=np.float64))
    ranks = ranks - ranks.mean()
    with np.errstate(invalid='ignore'):
        standard = ranks / math.sqrt(float(ranks @ ranks))
    return standard


def rank_products(
    scores: Sequence[float] | Floats, human: Sequence[float] | Floats
) -> Floats:
    """
    Return a number for each item; their sum is Spearman's rho of scores and human
    values.
    """
    return standard_ranks(scores) * standard_ranks(human)


def swap_tests(
    parts: Floats, permutations: int = PERMUTATIONS, seed: int = 0
) -> list[float]:
    """
    Return the two-sided p-values of differences that are sums of parts, each of which
    has a random sign under the null hypothesis; all are drawn by the same signs.

    Few parts are enumerated; else ``(1 + as large) / (1 + drawn)``, never 0.

    :param parts: a row for each context, a column for each difference: the sum of the
        difference of two scorers' `rank_products`; of several sets, one after the
        other.
    """
    # sums of the same parts differ by rounding
    reach = np.abs(parts.sum(axis=0)) - 1e-12 * np.abs(parts).sum(axis=0)
    p_values = np.empty(parts.shape[1])
    drawn = np.count_nonzero(parts, axis=0) > MAX_ENUMERATED
    for k in np.flatnonzero(~drawn):
        own = parts[parts[:, k] != 0, k]
        signs = np.array(list(product((1.0, -1.0), repeat=len(own))))
        p_values[k] = (np.abs(signs @ own) >= reach[k]).mean()
    rng = np.random.default_rng([seed, 7])
    as_large = np.zeros(drawn.sum())
    for start in range(0, permutations if drawn.any() else 0, CHUNK):
        shape = (min(CHUNK, permutations - start), len(parts))
        signs = 1.0 - 2.0 * rng.integers(2, size=shape)
        as_large += (np.abs(signs @ parts[:, drawn]) >= reach[drawn]).sum(axis=0)
    p_values[drawn] = (1 + as_large) / (1 + permutations)
    return [float(p) for p in p_values]


def williams_test(
    first: float, second: float, between: float, n: int
) -> tuple[float, float]:
    """
    Return t and the two-sided p-value of Williams' test of two dependent correlations.

    Source: Williams 1959, "The comparison of regression variables", JRSS B 21; Steiger
    1980, Psychological Bulletin 87(2), equation 7. It has n - 3 degrees of freedom and
    assumes normal, independent points.

    :param first: Pearson's r of the first scorer with people.
    :param second: Pearson's r of the second one with people.
    :param between: Pearson's r of the two scorers.
    :param n: how many points, four or more.
    """
    determinant = 1 - first**2 - second**2 - between**2 + 2 * first * second * between
    mean = (first + second) / 2
    scale = 2 * (n - 1) / (n - 3) * determinant + mean**2 * (1 - between) ** 3
    if scale <= 0:  # the scorers give one order, or one is people's own
        return (0.0, 1.0) if first == second else (math.inf, 0.0)
    t = (first - second) * math.sqrt((n - 1) * (1 + between) / scale)
    return t, float(2 * scipy.special.stdtr(n - 3, -abs(t)))


def holm(p_values: Sequence[float]) -> list[float]:
    """
    Return p-values adjusted for being made together (Holm 1979), in the same order.
    """
    values = np.array(p_values, np.float64)
    order = np.argsort(values, kind='stable')
    steps = np.arange(len(values), 0, -1) * values[order]
    values[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in values]


def adjusted(rows: Iterable[Row], family: Callable[[Row], Hashable]) -> list[Row]:
    """
    Return compared pairs by family, their p-values `p` adjusted as `p_holm`.

    :param family: of a row: the rows whose tests are made together.
    """
    return [
        replace(row, p_holm=p)
        for some in grouped((family(row), row) for row in rows).values()
        for row, p in zip(some, holm([row.p for row in some]), strict=True)
    ]


def clusters(values: Sequence[float], p_values: npt.ArrayLike) -> list[int]:
    """
    Return the cluster of each scorer, from 1 for the best; a cluster ends where every
    scorer above is better than every one below (as in the shared tasks of WMT).

    :param values: the correlation of each scorer.
    :param p_values: ``[i, j]``: the adjusted p-value of the difference of two scorers.
    """
    correlations = np.asarray(values, dtype=np.float64)
    higher = correlations[:, None] > correlations[None, :]
    better = higher & (np.asarray(p_values) < LEVEL)
    return tied_groups(better, ranks_by_score(correlations))


@frozen
class Ceiling:
    """
    How well annotators agree, as a bound on what a scorer can reach.

    :param single: mean Spearman of one annotator with the mean of the item's others.
    :param reliability: of the mean of all annotators: split-half, stepped up by the
        Spearman-Brown formula.
    :param ceiling: its square root: what a perfect scorer's correlation with the mean
        would be (attenuation, Spearman 1904). `None` where reliability is not positive.
    :param n: items with at least two annotators.
    """

    single: float | None
    reliability: float | None
    ceiling: float | None
    n: int
    reason: str | None = None


def annotator_ceiling(
    annotations: Sequence[Sequence[float]], halves: int = HALVES
) -> Ceiling:
    """
    Return the ceiling from the single annotations of each item.

    Annotators need not be the same people for all items: each item's annotations are
    split at random, again for every half.
    """
    several = [list(one) for one in annotations if len(one) > 1]
    if len(several) < 3:
        reason = f'{len(several)} items have two annotators; 3 are needed'
        return Ceiling(None, None, None, len(several), reason)
    rng = np.random.default_rng([0, 8])
    singles: list[float] = []
    half_values: list[float] = []
    for _ in range(halves):
        shuffled = [rng.permutation(one) for one in several]
        for values, middles in (
            (singles, [1] * len(several)),
            (half_values, [len(one) // 2 for one in several]),
        ):
            pairs = zip(shuffled, middles, strict=True)
            left, right = zip(
                *((s[:m].mean(), s[m:].mean()) for s, m in pairs), strict=True
            )
            values.append(float(rank_products(left, right).sum()))
    if any(math.isnan(value) for value in (*singles, *half_values)):
        reason = 'all items have the same mean in a half of the annotations'
        return Ceiling(None, None, None, len(several), reason)
    half = float(np.mean(half_values))
    reliability = 2 * half / (1 + half) if half > -1 else -1.0
    ceiling = math.sqrt(reliability) if reliability > 0 else None
    return Ceiling(float(np.mean(singles)), reliability, ceiling, len(several))


# --- detectors, and systems by what a detector says -----------------------------------
# How well numbers tell two classes apart: precision, recall, areas under curves.
#
# Arrays are ``[item]``; weights are ``[resample, item]``: how often a resample holds
# each item. Intervals are 95 % percentile intervals; groups of items (the turns of
# one thread) are drawn together.
#
# Means over prompts with 95 % intervals, and paired differences of systems.
#
# ``values[system, prompt]`` is the mean over a system's answers to a prompt; NaN
# where there is none. Prompts are drawn with replacement, the same draws for all
# systems.

MEASURES = ('precision', 'recall', 'f1', 'roc_auc', 'pr_auc', 'share_flagged')


def detection_measures(
    scores: Floats,
    labels: Bools,
    threshold: float,
    groups: Sequence[Hashable],
    sampling: Sampling = SAMPLING,
) -> dict[str, Estimate]:
    """
    Return the measures of scores by name. A measure that is the same in all resamples
    has no interval; a share has Wilson's, each group counted once.

    :param labels: True for the class that is to be detected.
    :param threshold: a score from here on detects it.
    :param groups: of each item: items of a group are drawn together.
    """
    values = weighted_measures(scores, labels, threshold, np.ones((1, len(scores))))
    drawn = {name: [np.zeros(0)] for name in MEASURES}
    rng = np.random.default_rng(sampling.seed)
    for weights in draw_groups(groups, sampling.bootstraps, rng):
        measures = weighted_measures(scores, labels, threshold, weights)
        for name, draws in measures.items():
            drawn[name].append(draws)
        sampling.count(len(weights))
    shares_of = {  # of which items a measure is a share
        'precision': scores >= threshold,
        'recall': labels,
        'share_flagged': np.ones(len(scores), bool),
    }
    found = {}
    for name in MEASURES:
        value, draws = float(values[name][0]), np.concatenate(drawn[name])
        known = draws[np.isfinite(draws)]
        found[name] = Estimate(value if np.isfinite(value) else None, None, None)
        if not np.isfinite(value) or len(known) < len(draws) / 2:
            continue
        if np.ptp(known):
            found[name] = Estimate(value, *percentile_ends(known))
        elif name in shares_of:
            n = len(set(compress(groups, shares_of[name])))
            found[name] = Estimate(value, *wilson_interval(value * n, n))
    return found


def weighted_measures(
    scores: Floats, labels: Bools, threshold: float, weights: Floats
) -> dict[str, Floats]:
    """
    Return each measure of each resample; NaN where it does not exist.

    ``roc_auc`` counts ties as half. ``pr_auc`` is average precision: the precision at
    each score, weighted by the recall that the score adds.
    """
    levels = np.unique(-scores)  # from the highest score on
    level = np.searchsorted(levels, -scores)
    order = np.argsort(level, kind='stable')
    starts = np.searchsorted(level[order], np.arange(len(levels)))
    positive, negative = (
        np.add.reduceat((weights * side)[:, order], starts, axis=1)
        for side in (labels, ~labels)
    )
    above = np.cumsum(positive, axis=1)
    above_negative = np.cumsum(negative, axis=1)
    n_positive, n_negative = above[:, -1], above_negative[:, -1]
    flagged = -levels >= threshold
    hits = (positive * flagged).sum(axis=1)
    false_alarms = (negative * flagged).sum(axis=1)
    with np.errstate(invalid='ignore', divide='ignore'):
        pairs = (negative * (above - positive / 2)).sum(axis=1)
        at_level = np.nan_to_num(above / (above + above_negative))
        precision, recall = hits / (hits + false_alarms), hits / n_positive
        return {
            'precision': precision,
            'recall': recall,
            'f1': 2 * hits / (hits + false_alarms + n_positive),
            'roc_auc': pairs / (n_positive * n_negative),
            'pr_auc': (positive * at_level).sum(axis=1) / n_positive,
            'share_flagged': (hits + false_alarms) / (n_positive + n_negative),
        }


FEWEST = 3  # prompts, of which one may be left out
FEWEST_OTHERS = 5  # prompts with another share than 0, or 1, for a bootstrap


@frozen
class MeanDifference:
    """
    The mean of the first system less that of the second, over the prompts of both.

    :param n: how many prompts both have.
    :param p: of the paired permutation test; `p_holm` is adjusted for all pairs.
    """

    first: str
    second: str
    n: int
    difference: float
    low: float | None
    high: float | None
    p: float
    p_holm: float


def prompt_means(
    values: Floats,
    sampling: Sampling = SAMPLING,
    *,
    shares: bool,
    most: float = math.inf,
) -> list[Estimate]:
    """
    Return the mean of each system with its interval.

    :param shares: the values are shares. Where nearly all prompts have 0, or 1, there
        is too little variance for a bootstrap; the interval is Wilson's, each prompt
        counted once.
    :param most: of a number from 0 to this; values that are no such numbers
        (`jackknife_values`) could take its interval beyond.
    """
    draws = draw_means(values[:, None, :], sampling)
    measures = []
    for row, mean, interval in zip(
        values, draws.means, known_intervals(draws), strict=True
    ):
        n = int((~np.isnan(row)).sum())
        if not n:
            measures.append(Estimate(None, None, None))
            continue
        mean = float(mean)
        others = n - max(int((row == end).sum()) for end in (0, 1))
        if shares and others < min(FEWEST_OTHERS, n / 2):
            interval = wilson_interval(mean * n, n)
        low, high = interval
        if low is not None and high is not None and most < math.inf:
            low, high = max(low, 0.0), min(high, most)
        measures.append(Estimate(mean, low, high))
    return measures


def paired_differences(
    names: Sequence[str], values: Floats, sampling: Sampling = SAMPLING
) -> list[MeanDifference]:
    """
    Return the difference of each pair of systems with a prompt in common.

    :param names: of the systems.
    """
    pairs = [
        (i, j)
        for i, j in combinations(range(len(values)), 2)
        if not np.isnan(values[i] - values[j]).all()
    ]
    if not pairs:
        return []
    gaps = np.array([values[i] - values[j] for i, j in pairs])
    draws = draw_means(gaps[:, None, :], sampling)
    rows = []
    for (i, j), gap, interval in zip(pairs, gaps, known_intervals(draws), strict=True):
        parts = gap[~np.isnan(gap)]
        if not np.ptp(parts):  # a variance that was never seen cannot be bootstrapped
            interval = (None, None)
        [p] = swap_tests(parts[:, None], seed=sampling.seed)
        mean = float(parts.mean())
        rows.append(
            MeanDifference(names[i], names[j], len(parts), mean, *interval, p, p)
        )
    return adjusted(rows, lambda row: None)


def jackknife_values(number: float, without: Floats) -> Floats:
    """
    Return a value for each prompt, where a number is no mean over prompts: the mean of
    the values is the number, and their variance is the jackknife's (Tukey 1958).

    :param without: the number of all prompts but one, for each prompt.
    """
    if len(without) < FEWEST:
        return np.full(len(without), number)
    values = number + (len(without) - 1) * (without.mean() - without)
    return values
