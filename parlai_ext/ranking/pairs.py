"""
Every pair of systems compared over the same openers and partners.

The difference of a pair is the mean of its differences over the partners and openers
with which both have a score. Its interval comes from the bootstrap of `intervals`, of
these differences: what an opener, or a partner, does to both systems cancels out.
Whether two systems are told apart is what `ranks.significantly_better` says of all
pairs together, so that it agrees with rank ranges and tied groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parlai_ext.ranking.intervals import (
    FEWEST_PARTNERS,
    Draws,
    draw_means,
    fixed_intervals,
    sampled_intervals,
)
from parlai_ext.ranking.ranks import significantly_better
from parlai_ext.ranking.table import Floats, check_table, json_number


@dataclass(frozen=True)
class PairDifference:
    """
    How the dialogues of one system score above those of another.

    `difference` is that of the first less the second, `low` and `high` its 95 %
    interval (`None` below three openers), and `win_rate` the share of the `n` common
    dialogues in which the first scores higher, equal scores counted half. `apart` is
    true if the two are told apart in the ranking of all systems.
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
    def reversed(self) -> PairDifference:
        """
        The same pair with its systems exchanged.
        """
        low, high = (None if v is None else -v for v in (self.high, self.low))
        return PairDifference(
            *(self.second, self.first, -self.difference, low, high),
            win_rate=1 - self.win_rate,
            n=self.n,
            apart=self.apart,
        )


def pair_differences(
    values: Floats,
    systems: Sequence[str],
    *,
    ranked: Sequence[bool],
    bootstraps: int,
    seed: int,
    partners: str = 'sampled',
    games_per_opener: int = 1,
) -> list[PairDifference]:
    """
    Return the difference of each pair of systems with a dialogue in common.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    :param ranked: which systems take part in the ranking; of the others nothing is
        told apart.
    :param partners: ``sampled`` or ``fixed``: what intervals and claims are about. An
        interval over one partner is about that partner.
    """
    table = check_table(values, systems)
    apart = _told_apart(
        draw_means(table, bootstraps, seed, games_per_opener), ranked, partners
    )
    pairs = []
    for i in range(len(systems) - 1):
        gaps = table[i] - table[i + 1 :]
        draws = draw_means(gaps, bootstraps, seed, games_per_opener)
        intervals = _intervals(draws, partners)
        for k, (gap, ends) in enumerate(zip(gaps, intervals, strict=True)):
            known = gap[~np.isnan(gap)]
            if not len(known):
                continue
            j = i + 1 + k
            wins = (known > 0).sum() + 0.5 * (known == 0).sum()
            low, high = (json_number(float(end)) for end in ends)
            pairs.append(
                PairDifference(
                    *(systems[i], systems[j], float(draws.means[k]), low, high),
                    win_rate=float(wins) / len(known),
                    n=len(known),
                    apart=bool(apart[i, j] or apart[j, i]),
                )
            )
    return pairs


def _told_apart(
    draws: Draws, ranked: Sequence[bool], partners: str
) -> NDArray[np.bool_]:
    """
    Return ``[i, j]``: the ranking says that system ``i`` is better than ``j``.
    """
    size = len(draws.means)
    better = np.zeros((size, size), bool)
    chosen = np.flatnonzero(np.array(ranked, bool) & ~np.isnan(draws.means))
    better[np.ix_(chosen, chosen)] = significantly_better(
        draws.select(chosen), partners=partners
    )
    return better


def _intervals(draws: Draws, partners: str) -> list[tuple[float, float]]:
    """
    Return the interval of each mean: the one for partners like these where that is
    asked for and there are two or more.
    """
    fixed = fixed_intervals(draws)
    if partners == 'fixed':
        return fixed
    several = draws.num_partners >= FEWEST_PARTNERS
    return [
        wide if many else narrow
        for wide, narrow, many in zip(
            sampled_intervals(draws), fixed, several, strict=True
        )
    ]
