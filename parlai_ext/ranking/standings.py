"""
Standings from dialogue means: score, two intervals and a rank for each system; and what
its unscored dialogues could change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parlai_ext.ranking.intervals import draw_means, fixed_intervals, sampled_intervals
from parlai_ext.ranking.ranks import RankRange, simultaneous_ranks
from parlai_ext.ranking.table import Floats, check_table, json_number


@dataclass(frozen=True)
class Standing:
    """
    Where one system stands on one dimension, with its two 95 % intervals.

    `low`, `high`: partners are a sample (two-way bootstrap over openers and
    partners). `low_fixed`, `high_fixed`: partners are fixed (bootstrap over openers).
    `rank` is `None` for a system that is listed but not ranked. `why_unranked` then
    says why, unless it failed or lacks scores. `None` is "undefined" elsewhere.
    """

    system: str
    dimension: str
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    score: float | None
    low: float | None
    high: float | None
    low_fixed: float | None
    high_fixed: float | None
    n_dialogues: int
    n_unscored: int
    why_unranked: str | None = field(default=None, metadata={'key': 'why'})


def standings(
    values: Floats,
    systems: Sequence[str],
    dimension: str,
    *,
    ranked: Sequence[bool] | None,
    n_dialogues: Sequence[int],
    n_unscored: Sequence[int],
    bootstraps: int,
    seed: int,
    higher_is_better: bool = True,
    partners: str = 'sampled',
) -> list[Standing]:
    """
    Return one standing for each system, in the order of ``systems``.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    :param ranked: which systems take part in the ranking (`None`: all). The others have
        score and intervals, but no rank, and do not change the ranks of others.
    :param partners: ``sampled`` or ``fixed``: what ranks are about, see `ranks`.
    """
    table = check_table(values, systems)
    # by name, so that the result does not depend on the order it came in
    order = sorted(range(len(systems)), key=lambda i: systems[i])
    takes_part = np.ones(len(systems), bool) if ranked is None else np.array(ranked)
    draws = draw_means(table[order], bootstraps, seed)
    takes_part = takes_part[order].astype(bool) & ~np.isnan(draws.means)
    ranges = iter(
        simultaneous_ranks(
            draws.select(takes_part),
            partners=partners,
            higher_is_better=higher_is_better,
        )
    )
    sampled, fixed = sampled_intervals(draws), fixed_intervals(draws)
    by_place = {}
    for k, i in enumerate(order):
        by_place[i] = _standing(
            (systems[i], dimension),
            next(ranges) if takes_part[k] else None,
            [float(draws.means[k]), *sampled[k], *fixed[k]],
            (n_dialogues[i], n_unscored[i]),
        )
    return [by_place[i] for i in range(len(systems))]


def _standing(
    names: tuple[str, str],
    rank_range: RankRange | None,
    numbers: Sequence[float],
    counts: tuple[int, int],
) -> Standing:
    """
    Return the standing made of these values.

    :param names: system and dimension.
    :param numbers: score, low, high, low_fixed, high_fixed; NaN becomes `None`.
    :param counts: dialogues, and those of them without a score.
    """
    score, low, high, low_fixed, high_fixed = (
        json_number(number) for number in numbers
    )
    return Standing(
        system=names[0],
        dimension=names[1],
        rank=rank_range.low if rank_range else None,
        rank_low=rank_range.low if rank_range else None,
        rank_high=rank_range.high if rank_range else None,
        score=score,
        low=low,
        high=high,
        low_fixed=low_fixed,
        high_fixed=high_fixed,
        n_dialogues=int(counts[0]),
        n_unscored=int(counts[1]),
    )


def best_first(standings: Sequence[Standing]) -> list[Standing]:
    """
    Return standings by rank, then score, then name; systems without a rank come last.
    """

    def key(standing: Standing) -> tuple[Any, ...]:
        missing = standing.score is None
        order = (standing.rank is None, standing.rank or 0)
        return (*order, missing, -(standing.score or 0.0), standing.system)

    return sorted(standings, key=key)


@dataclass(frozen=True)
class ScoreBounds:
    """
    What the unscored dialogues of a system could do to its mean.

    `worst` and `best` are its mean had all of them got the worst or the best score of
    any dialogue of any system. `unscored_share` is `None` for a system without
    dialogues; `worst` and `best` are `None` too when the
    dimension has no score at all.
    """

    unscored_share: float | None
    worst: float | None
    best: float | None


def unscored_bounds(
    values: Floats, systems: Sequence[str], n_unscored: Sequence[int]
) -> dict[str, ScoreBounds]:
    """
    Return the bounds of every system; larger scores are better.

    :param values: as for `standings`.
    """
    table = check_table(values, systems)
    scored = table[~np.isnan(table)]
    ends = [scored.min(), scored.max()] if len(scored) else [np.nan, np.nan]
    bounds = {}
    for name, row, missing in zip(systems, table, n_unscored, strict=True):
        n_dialogues = int((~np.isnan(row)).sum()) + missing
        if not n_dialogues:
            bounds[name] = ScoreBounds(None, None, None)
            continue
        total = float(np.nansum(row))
        worst, best = (
            json_number((total + (missing * end if missing else 0.0)) / n_dialogues)
            for end in ends
        )
        bounds[name] = ScoreBounds(json_number(missing / n_dialogues), worst, best)
    return bounds
