"""
How well numbers tell two classes apart: precision, recall, areas under curves.

Arrays are ``[item]``; weights are ``[resample, item]``: how often a resample holds each
item. Intervals are 95 % percentile intervals; groups of items (the turns of one thread)
are drawn together.

Means over prompts with 95 % intervals, and paired differences of systems.

``values[system, prompt]`` is the mean over a system's answers to a prompt; NaN where
there is none. Prompts are drawn with replacement, the same draws for all systems.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from parlai_ext.ranking.comparison import adjusted, swap_tests
from parlai_ext.ranking.intervals import (
    Estimate,
    Floats,
    Sampling,
    draw_groups,
    draw_means,
    known_intervals,
    percentile_ends,
    wilson_interval,
)

MEASURES = ('precision', 'recall', 'f1', 'roc_auc', 'pr_auc', 'share_flagged')
BOOTSTRAPS = 1000
Bools = npt.NDArray[np.bool_]


def detection_measures(
    scores: Floats,
    labels: Bools,
    threshold: float,
    groups: Sequence[Hashable] | None = None,
    *,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
) -> dict[str, Estimate]:
    """
    Return the measures of scores by name.

    :param labels: True for the class that is to be detected.
    :param threshold: a score from here on detects it.
    :param groups: which items are drawn together (none: each item by itself).
    """
    names: Sequence[Hashable] = groups if groups is not None else range(len(scores))
    values = weighted_measures(scores, labels, threshold, np.ones((1, len(scores))))
    drawn = {name: [np.zeros(0)] for name in MEASURES}
    for weights in draw_groups(names, bootstraps, np.random.default_rng(seed)):
        measures = weighted_measures(scores, labels, threshold, weights)
        for name, draws in measures.items():
            drawn[name].append(draws)
    found = {}
    for name in MEASURES:
        value, draws = float(values[name][0]), np.concatenate(drawn[name])
        known = draws[np.isfinite(draws)]
        found[name] = Estimate(value if np.isfinite(value) else None, None, None)
        if np.isfinite(value) and len(known) >= max(1, len(draws) / 2):
            found[name] = Estimate(value, *percentile_ends(known))
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


@dataclass(frozen=True)
class MeanDifference:
    """
    The mean of the first system less that of the second, over the prompts of both.

    :param first: its place among the systems.
    :param n: how many prompts both have.
    :param p: of the paired permutation test; `p_holm` is adjusted for all pairs.
    """

    first: int
    second: int
    n: int
    difference: float
    low: float | None
    high: float | None
    p: float
    p_holm: float


def prompt_means(
    values: Floats, *, shares: bool, bootstraps: int = BOOTSTRAPS, seed: int = 0
) -> list[Estimate]:
    """
    Return the mean of each system with its interval.

    :param shares: the values are shares. Where nearly all prompts have 0, or 1, there
        is too little variance for a bootstrap; the interval is Wilson's, each prompt
        counted once.
    """
    draws = draw_means(values[:, None, :], Sampling(bootstraps, seed))
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
        measures.append(Estimate(mean, *interval))
    return measures


def paired_differences(
    values: Floats, *, bootstraps: int = BOOTSTRAPS, seed: int = 0
) -> list[MeanDifference]:
    """
    Return the difference of each pair of systems with a prompt in common.
    """
    pairs = [
        (i, j)
        for i, j in combinations(range(len(values)), 2)
        if not np.isnan(values[i] - values[j]).all()
    ]
    if not pairs:
        return []
    gaps = np.array([values[i] - values[j] for i, j in pairs])
    draws = draw_means(gaps[:, None, :], Sampling(bootstraps, seed))
    rows = []
    for (i, j), gap, interval in zip(pairs, gaps, known_intervals(draws), strict=True):
        parts = gap[~np.isnan(gap)]
        [p] = swap_tests(parts[:, None], seed=seed)
        mean = float(parts.mean())
        rows.append(MeanDifference(i, j, len(parts), mean, *interval, p, p))
    return adjusted(rows, lambda row: None)


def jackknife_values(number: float, without: Floats) -> Floats:
    """
    Return a value for each prompt, where a number is no mean over prompts: the mean of
    the values is the number, and their variance is the jackknife's (Tukey 1958).

    :param without: the number of all prompts but one, for each prompt.
    """
    if len(without) < FEWEST:
        return np.full(len(without), number)
    values: Floats = number + (len(without) - 1) * (without.mean() - without)
    return values
