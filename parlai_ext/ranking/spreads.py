"""
How the dialogue means of a system spread, and how it does with each partner.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.ranking.table import Floats, check_table, json_number

BINS = 24
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    table = check_table(values, systems)
    scored = table[~np.isnan(table)]
    if not len(scored):
        return {}
    ends = float(scored.min()), float(scored.max())
    # np.histogram widens a range without width by half a unit to each side
    reach = ends if ends[0] < ends[1] else (ends[0] - 0.5, ends[1] + 0.5)
    result = {}
    for name, row in zip(systems, table, strict=True):
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
    table = check_table(values, systems)
    cells: dict[str, dict[str, CellMean]] = {}
    for name, row in zip(systems, table, strict=True):
        cells[name] = {}
        for partner, openers in zip(partners, row, strict=True):
            known = openers[~np.isnan(openers)]
            mean = json_number(float(known.mean())) if len(known) else None
            if mean is not None:
                cells[name][partner] = CellMean(mean, len(known))
    return cells
