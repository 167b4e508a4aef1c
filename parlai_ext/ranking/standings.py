"""
Standings from dialogue means: score, two intervals, rank, rank interval and tied group
for each system; and what its unscored dialogues could change.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parlai_ext.core.display import DASH, number
from parlai_ext.core.records import keys
from parlai_ext.ranking.agreement import Correlation
from parlai_ext.ranking.intervals import (
    FEWEST_FOR_OTHERS,
    Draws,
    draw_means,
    intervals_for,
    most_partners,
)
from parlai_ext.ranking.ranks import (
    rank_ranges,
    ranks_by_score,
    significantly_better,
    tied_groups,
)
from parlai_ext.ranking.separation import Separation, separation
from parlai_ext.ranking.table import Floats, check_table, json_number


@dataclass(frozen=True)
class Standing:
    """
    Where one system stands on one dimension, with its two 95 % intervals.

    `low`, `high`: partners are a sample (two-way bootstrap over openers and
    partners); undefined where they are too few to speak for others. `low_fixed`,
    `high_fixed`: partners are fixed (bootstrap over openers).
    `rank` counts the better scores, `rank_low` and `rank_high` are the ranks that the
    data leave open, and systems of one `group` are not all told apart from each other;
    below three distinct openers these three, and both intervals, are undefined.
    `rank` is `None` for a system that is listed but not ranked. `why_unranked` then
    says why, unless it failed or lacks scores. `None` is "undefined" elsewhere.
    """

    __pydantic_config__ = keys(why_unranked='why')

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
    why_unranked: str | None = None
    group: int | None = None
    n_openers: int | None = None
    n_partners: int | None = None

    def interval(self, digits: int = 2) -> str:
        """
        Return the interval for partners like these or, where there is none, for these.
        """
        for low, high in ((self.low, self.high), (self.low_fixed, self.high_fixed)):
            if low is not None and high is not None:
                return f'[{number(low, digits)}, {number(high, digits)}]'
        return 'no interval'

    def open_ranks(self) -> str:
        """
        Return the rank and, where there are several, those that the data leave open.
        """
        if self.rank is None:
            return DASH
        if self.rank_low is None or self.rank_low == self.rank_high:
            return str(self.rank)
        return f'{self.rank} ({self.rank_low}–{self.rank_high})'


@dataclass(frozen=True, kw_only=True)
class Rating:
    """
    A value for each system of a tournament, larger is better, with ranks; or the reason
    why there is none.

    `spreads` holds standard deviations where the method knows them. `signature` fixes
    every number. `tau` is Kendall's tau-b with human ranks, where there are any.
    """

    values: Mapping[str, float | None] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, float | None] = field(default_factory=dict)
    reason: str | None = None
    signature: str
    notes: tuple[str, ...] = ()
    tau: Correlation | None = None


@dataclass(frozen=True)
class DimensionResult:
    """
    The standings on one dimension, and what can be told apart there.
    """

    standings: tuple[Standing, ...]
    separation: Separation | None


def rank_dimension(
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
    games_per_opener: int = 1,
) -> DimensionResult:
    """
    Return one standing for each system, in the order of ``systems``.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    :param ranked: which systems take part in the ranking (`None`: all). The others have
        score and intervals, but no rank, and do not change the ranks of others.
    :param partners: ``sampled`` or ``fixed``: what ranks are about, see `ranks`.
    :param games_per_opener: see `draw_means`.
    """
    table = check_table(values, systems)
    # by name, so that the result does not depend on the order it came in
    order = np.array(sorted(range(len(systems)), key=lambda i: systems[i]), np.int64)
    table, names = table[order], [systems[i] for i in order]
    wanted = np.ones(len(systems), bool) if ranked is None else np.array(ranked, bool)
    draws = draw_means(table, bootstraps, seed, games_per_opener)
    chosen = np.flatnonzero(wanted[order] & ~np.isnan(draws.means))
    counts = [(int(n_dialogues[i]), int(n_unscored[i])) for i in order]
    rows = _unranked(draws, names, dimension, counts)
    better, ranks = _rank(rows, draws, chosen, partners, higher_is_better)
    if partners == 'fixed' and most_partners(table) < FEWEST_FOR_OTHERS:
        rows = [replace(row, low=None, high=None) for row in rows]
    best_first = np.argsort(ranks, kind='stable')
    apart = separation(
        table[chosen[best_first]],
        [names[k] for k in chosen[best_first]],
        better[np.ix_(best_first, best_first)],
        partners=partners,
        games_per_opener=games_per_opener,
    )
    return DimensionResult(tuple(rows[k] for k in np.argsort(order)), apart)


def rank_draws(
    draws: Draws,
    systems: Sequence[str],
    dimension: str,
    n_dialogues: Sequence[int],
    *,
    partners: str = 'sampled',
    higher_is_better: bool = True,
) -> tuple[Standing, ...]:
    """
    Return one standing for each system from bootstrap draws that are there already.
    """
    rows = _unranked(draws, systems, dimension, [(n, 0) for n in n_dialogues])
    _rank(rows, draws, np.arange(len(systems)), partners, higher_is_better)
    return tuple(rows)


def _unranked(
    draws: Draws,
    names: Sequence[str],
    dimension: str,
    counts: Sequence[tuple[int, int]],
) -> list[Standing]:
    """
    Return the standings of the systems of ``draws``, without ranks.

    :param counts: of each system its dialogues, and those without a score.
    """
    sampled, fixed = (intervals_for(draws, one) for one in ('sampled', 'fixed'))
    rows = []
    for k, name in enumerate(names):
        numbers = [float(draws.means[k]), *sampled[k], *fixed[k]]
        score, low, high, low_fixed, high_fixed = map(json_number, numbers)
        rows.append(
            Standing(
                name,
                dimension,
                None,
                None,
                None,
                score,
                low,
                high,
                low_fixed,
                high_fixed,
                *counts[k],
                n_openers=int(draws.num_openers[k]),
                n_partners=int(draws.num_partners[k]),
            )
        )
    return rows


def _rank(
    rows: list[Standing],
    draws: Draws,
    chosen: NDArray[np.int64],
    partners: str,
    higher_is_better: bool,
) -> tuple[NDArray[np.bool_], list[int]]:
    """
    Rank the chosen rows among themselves. Return which of them are better than which,
    and their ranks by score.
    """
    better = significantly_better(
        draws.select(chosen), partners=partners, higher_is_better=higher_is_better
    )
    ranks = ranks_by_score([rows[k].score for k in chosen], higher_is_better)
    groups, ranges = tied_groups(better, ranks), rank_ranges(better)
    for k, rank, group, one in zip(chosen, ranks, groups, ranges, strict=True):
        rows[k] = replace(rows[k], rank=rank)
        if draws.has_interval[k]:
            ends = {'rank_low': one.low, 'rank_high': one.high}
            rows[k] = replace(rows[k], group=group, **ends)
    return better, ranks


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
    any dialogue of any system; `None` when the dimension has no score at all.
    """

    unscored_share: float | None
    worst: float | None
    best: float | None


def unscored_bounds(
    values: Floats, systems: Sequence[str], n_unscored: Sequence[int]
) -> dict[str, ScoreBounds]:
    """
    Return the bounds of every system with unscored dialogues; larger scores are better.

    :param values: as for `standings`.
    """
    scored = values[~np.isnan(values)]
    ends = [scored.min(), scored.max()] if len(scored) else [np.nan, np.nan]
    bounds = {}
    for name, row, missing in zip(systems, values, n_unscored, strict=True):
        if missing:
            n_dialogues = int((~np.isnan(row)).sum()) + missing
            total = float(np.nansum(row))
            worst, best = (
                json_number((total + missing * end) / n_dialogues) for end in ends
            )
            bounds[name] = ScoreBounds(json_number(missing / n_dialogues), worst, best)
    return bounds
