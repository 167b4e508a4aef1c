"""
How well scores recover an order of systems that was planted before any chat.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from statistics import fmean, median

from scipy.stats import spearmanr

from benchmarks.support.measures import print_head, print_row
from parlai_ext.ranking.standings import Standing


def known_scores(
    standings: Iterable[Standing], planted: Mapping[str, float], *, higher: bool = True
) -> dict[str, float]:
    """
    Return the scores of the systems of the planted order, the higher the better.

    A baseline may have no score for a system (a distinct-2 of one-word replies): that
    system is left out.

    :param higher: false where a lower score is better.
    """
    sign = 1 if higher else -1
    scores = {one.system: one.score for one in standings if one.score is not None}
    return {name: sign * scores[name] for name in planted if name in scores}


def spearman(scores: Mapping[str, float], planted: Mapping[str, float]) -> float:
    """
    Return Spearman of the scores with the planted order; NaN for constant scores.
    """
    if len(set(scores.values())) < 2:
        return math.nan
    names = list(scores)
    order = [planted[name] for name in names]
    return float(spearmanr(order, [scores[name] for name in names])[0])


def right_pairs(scores: Mapping[str, float], planted: Mapping[str, float]) -> float:
    """
    Return the share of pairs of systems that the scores put in the planted order; equal
    scores count half.

    >>> right_pairs({'a': 1, 'b': 2, 'c': 2}, {'a': 1, 'b': 2, 'c': 3})
    0.8333333333333334
    """
    pairs = list(combinations(sorted(scores, key=lambda name: planted[name]), 2))
    right = [(scores[a] < scores[b]) + (scores[a] == scores[b]) / 2 for a, b in pairs]
    return fmean(right)


def print_by_seed(
    title: str, seeds: Sequence[int], by_seed: Sequence[Mapping[str, float]]
) -> None:
    """
    Print a table of numbers at each seed, with their median.

    :param by_seed: at each seed, the numbers by name.
    """
    print()
    print_head(title, *(f'seed {seed}' for seed in seeds), 'median')
    for name in by_seed[0]:
        values = [one[name] for one in by_seed]
        print_row(name, *(f'{value:.2f}' for value in (*values, median(values))))


def print_scores(
    by_seed: Sequence[Mapping[str, float]], planted: Mapping[str, float]
) -> None:
    """
    Print each system's score by the judge at each seed, the best planted first.
    """
    print()
    print_head('Overall of the judge', 'seeds, in order')
    for system in sorted(planted, key=lambda name: -planted[name]):
        print_row(system, ', '.join(f'{scores[system]:.2f}' for scores in by_seed))
