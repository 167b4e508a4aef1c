"""
From dialogue means to standings: score, two intervals and a rank for each system.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parlai_ext.core.nouns import Standing
from parlai_ext.ranking.intervals import draw_means, fixed_intervals, sampled_intervals
from parlai_ext.ranking.ranks import Partners, RankRange, simultaneous_ranks
from parlai_ext.ranking.table import Floats, checked, plain


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
    partners: Partners = 'sampled',
) -> list[Standing]:
    """
    Return one standing for each system, in the order of ``systems``.

    :param values: dialogue means ``[system, partner, opener]``, NaN where none.
    :param ranked: which systems take part in the ranking (`None`: all). The others keep
        score and intervals, have no rank, and touch nobody else's.
    :param partners: what the claims behind the ranks are about, see `ranks`.
    """
    table = checked(values, systems)
    # by name, so that the result does not depend on the order it came in
    order = sorted(range(len(systems)), key=lambda i: systems[i])
    takes_part = np.ones(len(systems), bool) if ranked is None else np.array(ranked)
    draws = draw_means(table[order], bootstraps, seed)
    takes_part = takes_part[order].astype(bool) & ~np.isnan(draws.means)
    ranges = iter(
        simultaneous_ranks(
            draws.only(takes_part),
            partners=partners,
            higher_is_better=higher_is_better,
        )
    )
    sampled, fixed = sampled_intervals(draws), fixed_intervals(draws)
    made = {}
    for k, i in enumerate(order):
        made[i] = _standing(
            (systems[i], dimension),
            next(ranges) if takes_part[k] else None,
            [float(draws.means[k]), *sampled[k], *fixed[k]],
            (n_dialogues[i], n_unscored[i]),
        )
    return [made[i] for i in range(len(systems))]


def _standing(
    names: tuple[str, str],
    place: RankRange | None,
    numbers: Sequence[float],
    counts: tuple[int, int],
) -> Standing:
    score, low, high, low_fixed, high_fixed = (plain(number) for number in numbers)
    return Standing(
        system=names[0],
        dimension=names[1],
        rank=place.low if place else None,
        rank_low=place.low if place else None,
        rank_high=place.high if place else None,
        score=score,
        low=low,
        high=high,
        low_fixed=low_fixed,
        high_fixed=high_fixed,
        n_dialogues=int(counts[0]),
        n_unscored=int(counts[1]),
    )
