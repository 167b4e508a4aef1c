"""
What lies behind a ranking: how the dialogue means of a system spread, how it does with
each partner, and every pair of systems compared: the difference of their scores, and
whether the ranking tells them apart.

Interval and claim are one: both come from `pair_reaches`, which takes all pairs
together, so that two systems are told apart exactly where the interval of their
difference leaves out 0, and agree with rank ranges and tied groups. What an opener, or
a partner, does to both systems cancels out, because all systems share their draws.

Comparisons that an audit asks for: two systems, a system that is not in the ranking,
one that gets another partner, an order before and after.

Tables and intervals are those of `intervals`, with common draws, so that differences
are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from parlai_ext.core import frozen
from parlai_ext.ranking.intervals import (
    Draws,
    Estimate,
    Floats,
    Sampling,
    draw_means,
    intervals_for,
    json_number,
    round_off_noise,
)
from parlai_ext.ranking.standings import pair_reaches, significantly_better

BINS = 24
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@frozen
class SystemDifference:
    """
    How the dialogues of one system score above those of another.

    `difference` is the score of the first less that of the second, `low` and `high` its
    95 % interval, which holds together with those of all other pairs (`None` below
    three openers, and for systems that are not ranked). `win_rate` is the share of the
    `n` common dialogues in which the first scores higher, equal scores counted half.
    `apart` is true if the two are told apart in the ranking: the interval leaves out 0.
    """

    first: str
    second: str
    difference: float
    low: float | None
    high: float | None
    win_rate: float
    n: int
    apart: bool

    @property
    def reversed(self) -> SystemDifference:
        """
        The same pair with its systems exchanged.
        """
        low, high = (None if v is None else -v for v in (self.high, self.low))
        return replace(
            self,
            first=self.second,
            second=self.first,
            difference=-self.difference,
            low=low,
            high=high,
            win_rate=1 - self.win_rate,
        )


def pair_differences(
    values: Floats, systems: Sequence[str], ranked: Sequence[bool], sampling: Sampling
) -> list[SystemDifference]:
    """
    Return the difference of each pair of systems with a dialogue in common.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    :param ranked: which systems take part in the ranking; of the others nothing is
        told apart.
    """
    draws = draw_means(values, sampling)
    chosen = np.flatnonzero(np.array(ranked, bool) & ~np.isnan(draws.means))
    reach = np.full((len(systems), len(systems)), np.inf)
    reach[np.ix_(chosen, chosen)] = pair_reaches(draws.select(chosen))
    pairs = []
    for i, j in combinations(range(len(systems)), 2):
        gaps = values[i] - values[j]
        known = gaps[~np.isnan(gaps)]
        if not len(known):
            continue
        wins = (known > 0).sum() + 0.5 * (known == 0).sum()
        difference = float(draws.means[i] - draws.means[j])
        pairs.append(
            SystemDifference(
                systems[i],
                systems[j],
                difference,
                low=json_number(difference - reach[i, j]),
                high=json_number(difference + reach[i, j]),
                win_rate=float(wins) / len(known),
                n=len(known),
                apart=bool(abs(difference) > reach[i, j]),
            )
        )
    return pairs


@frozen
class Spread:
    """
    How `n` dialogue means spread: quantiles, and counts in `BINS` bins of one width
    that reach from `lowest` to `highest`, the extremes of all systems.
    """

    n: int
    quantiles: tuple[float, ...]
    counts: tuple[int, ...]
    lowest: float
    highest: float


@frozen
class CellMean:
    """
    The mean score of a system with one partner, over `n` dialogues.
    """

    mean: float
    n: int


def spreads(values: Floats, systems: Sequence[str]) -> dict[str, Spread]:
    """
    Return the spread of every system that has a score.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    """
    scored = values[~np.isnan(values)]
    if not len(scored):
        return {}
    ends = float(scored.min()), float(scored.max())
    # np.histogram widens a range without width by half a unit to each side
    reach = ends if ends[0] < ends[1] else (ends[0] - 0.5, ends[1] + 0.5)
    result = {}
    for name, row in zip(systems, values, strict=True):
        own = row[~np.isnan(row)]
        if len(own):
            counts, _ = np.histogram(own, BINS, reach)
            quantiles = tuple(map(float, np.quantile(own, QUANTILES)))
            result[name] = Spread(len(own), quantiles, tuple(counts.tolist()), *reach)
    return result


def cell_means(
    values: Floats, systems: Sequence[str], partners: Sequence[str]
) -> dict[str, dict[str, CellMean]]:
    """
    Return, by system and partner, the mean over openers, where there is a score.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    """
    cells: dict[str, dict[str, CellMean]] = {}
    for name, row in zip(systems, values, strict=True):
        cells[name] = {}
        for partner, openers in zip(partners, row, strict=True):
            known = openers[~np.isnan(openers)]
            mean = json_number(float(known.mean())) if len(known) else None
            if mean is not None:
                cells[name][partner] = CellMean(mean, len(known))
    return cells


@frozen
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


def difference(values: Floats, sampling: Sampling) -> Estimate:
    """
    Return how much the first of two systems scores above the second, with these
    partners.

    :param values: ``[2, partner, opener]``.
    """
    return combined(draw_means(values, sampling), np.array([1.0, -1.0]))


def combined(draws: Draws, weights: Floats) -> Estimate:
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
    return Estimate(json_number(mean[0]), json_number(low), json_number(high))


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


def lift(values: Floats, more: Floats, system: int, sampling: Sampling) -> Estimate:
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
