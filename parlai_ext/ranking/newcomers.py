"""
Comparisons that an audit asks for: two systems, a system that is not in the ranking,
one that gets another partner, an order before and after.

Tables are ``[system, partner, opener]`` as in `table`; intervals are those of
`intervals`, with common draws, so that differences are paired.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from parlai_ext.ranking.intervals import Draws, Sampling, draw_means, intervals_for
from parlai_ext.ranking.ranks import significantly_better
from parlai_ext.ranking.table import Floats, json_number, round_off_noise

# ends of intervals that differ by less do so by rounding
ROUNDING = 1e-9


@dataclass(frozen=True)
class Difference:
    """
    A difference with its 95 % interval; `None` where it is undefined.
    """

    value: float | None
    low: float | None
    high: float | None

    def is_within(self, low: float, high: float) -> bool:
        """
        True if there is an interval and all of it lies between these ends.
        """
        if self.low is None or self.high is None:
            return False
        return low - ROUNDING <= self.low and self.high <= high + ROUNDING

    def is_beyond(self, low: float, high: float) -> bool:
        """
        True if there is an interval and none of it lies between these ends.
        """
        if self.low is None or self.high is None:
            return False
        return self.high < low - ROUNDING or high + ROUNDING < self.low


@dataclass(frozen=True)
class Placing:
    """
    Where a newcomer would stand among ranked systems.

    `beaten` are the systems with a lower score, `surely_beaten` and `surely_better`
    those that the test of `ranks` tells apart; all are places of systems.
    """

    score: float | None
    low: float | None
    high: float | None
    rank: int | None
    beaten: tuple[int, ...]
    surely_beaten: tuple[int, ...]
    surely_better: tuple[int, ...] = ()


def flipped_pairs(before: Floats, after: Floats) -> list[tuple[int, int]]:
    """
    Return the pairs ``(i, j)`` of which ``i`` was above ``j`` and is below it now. Ties
    are no change of order.
    """
    before, after = round_off_noise(before), round_off_noise(after)
    pairs = []
    for i, j in combinations(range(len(before)), 2):
        if (before[i] - before[j]) * (after[i] - after[j]) < 0:
            pairs.append((i, j) if before[i] > before[j] else (j, i))
    return pairs


def difference(values: Floats, sampling: Sampling) -> Difference:
    """
    Return how much the first of two systems scores above the second, with these
    partners.

    :param values: ``[2, partner, opener]``.
    """
    return combined(draw_means(values, sampling), np.array([1.0, -1.0]))


def combined(draws: Draws, weights: Floats) -> Difference:
    """
    Return the sum of the systems' means with these weights, with its interval.
    """
    parts = np.flatnonzero(weights)
    # exact where all parts are equal
    first = draws.means[parts[0]]
    centred = draws.means - (first if abs(weights.sum()) < 1e-12 else 0.0)
    mean = np.array([centred[parts] @ weights[parts]])
    fixed = (draws.fixed[:, parts] @ weights[parts])[:, None]
    num_openers, num_partners = (
        np.array([units[parts].min()])
        for units in (draws.num_openers, draws.num_partners)
    )
    one = Draws(mean, fixed, fixed, num_openers, num_partners)
    ((low, high),) = intervals_for(one, 'fixed')
    return Difference(json_number(mean[0]), json_number(low), json_number(high))


def place_newcomer(values: Floats, newcomer: Floats, sampling: Sampling) -> Placing:
    """
    Return where a system would stand among others that met the same partners over the
    same openers.

    :param values: ``[system, partner, opener]`` of the ranked systems.
    :param newcomer: ``[partner, opener]``.
    """
    draws = draw_means(np.concatenate([values, newcomer[None]]), sampling)
    own = len(values)
    means = round_off_noise(draws.means)
    if np.isnan(means[own]):
        return Placing(None, None, None, None, (), ())
    better = significantly_better(draws)
    ((low, high),) = intervals_for(draws.select(np.array([own])), sampling.partners)
    return Placing(
        json_number(draws.means[own]),
        json_number(low),
        json_number(high),
        rank=1 + int((means[:own] > means[own]).sum()),
        beaten=tuple(np.flatnonzero(means[:own] < means[own]).tolist()),
        surely_beaten=tuple(np.flatnonzero(better[own, :own]).tolist()),
        surely_better=tuple(np.flatnonzero(better[:own, own]).tolist()),
    )


def lift(values: Floats, more: Floats, system: int, sampling: Sampling) -> Difference:
    """
    Return by how much further partners lift one system's mean above what they do to the
    other systems' means on average.

    :param values: ``[system, partner, opener]``.
    :param more: the same for the further partners, over the same openers.
    """
    # the draws of openers depend on seed and number of openers alone: they are common
    without = draw_means(values, sampling)
    together = draw_means(np.concatenate([values, more], axis=1), sampling)
    fixed = np.concatenate([together.fixed, without.fixed], axis=1)
    both = Draws(
        np.concatenate([together.means, without.means]),
        fixed,
        fixed,
        np.tile(without.num_openers, 2),
        np.tile(without.num_partners, 2),
    )
    size = len(values)
    weights = np.full(size, -1.0 / max(1, size - 1))
    weights[system] = 1.0
    return combined(both, np.concatenate([weights, -weights]))
