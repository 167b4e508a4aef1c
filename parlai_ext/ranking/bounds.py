"""
What the unscored dialogues could do to a mean, at best and at worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.ranking.table import Floats, checked, plain


@dataclass(frozen=True)
class UnscoredBounds:
    """
    One system's unscored share, and its mean had they all got the worst or best score.

    `share` is `None` for a system without dialogues; `worst` and `best` are `None` too
    when the dimension has no score at all.
    """

    system: str
    share: float | None
    worst: float | None
    best: float | None


def unscored_bounds(
    values: Floats, systems: Sequence[str], n_unscored: Sequence[int]
) -> list[UnscoredBounds]:
    """
    Return the bounds of every system, in the order of ``systems``; larger is better.

    The worst and the best score are those of any dialogue of any system in ``values``.
    """
    table = checked(values, systems)
    there = table[~np.isnan(table)]
    ends = [there.min(), there.max()] if len(there) else [np.nan, np.nan]
    bounds = []
    for name, row, missing in zip(systems, table, n_unscored, strict=True):
        scored = int((~np.isnan(row)).sum())
        every = scored + missing
        if not every:
            bounds.append(UnscoredBounds(name, None, None, None))
            continue
        total = float(np.nansum(row))
        worst, best = (
            plain((total + (missing * end if missing else 0.0)) / every) for end in ends
        )
        bounds.append(UnscoredBounds(name, plain(missing / every), worst, best))
    return bounds
