"""
Means over prompts with 95 % intervals, and paired differences of systems.

``values[system, prompt]`` is the mean over a system's answers to a prompt; NaN where
there is none. Prompts are drawn with replacement, the same draws for all systems.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from parlai_ext.ranking.comparison import adjusted, swap_test
from parlai_ext.ranking.detection import Measure
from parlai_ext.ranking.intervals import (
    Sampling,
    draw_means,
    known_intervals,
    wilson_interval,
)
from parlai_ext.ranking.table import Floats

BOOTSTRAPS = 1000
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
) -> list[Measure]:
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
            measures.append(Measure(None, None, None))
            continue
        mean = float(mean)
        others = n - max(int((row == end).sum()) for end in (0, 1))
        if shares and others < min(FEWEST_OTHERS, n / 2):
            interval = wilson_interval(mean * n, n)
        measures.append(Measure(mean, *interval))
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
        p = swap_test(parts, seed=seed)
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
