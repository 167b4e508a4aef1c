"""
Scores with both intervals on one axis: where each mark of the plot goes.

The page draws one small SVG for each row of the leaderboard, so that names, numbers
and intervals line up, follow the reader's colours and stay text. Places are percentages
of the plot's width, a pure function of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.display import number

# room left and right of the outermost mark, as a share of the axis
MARGIN = 0.06


@dataclass(frozen=True)
class Axis:
    """
    A linear axis from ``low`` to ``high`` with round tick values.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    digits: int

    def place(self, value: float | None) -> str | None:
        """
        Return where ``value`` is, as a percentage of the width; `None` for none.
        """
        if value is None or not math.isfinite(value):
            return None
        share = (value - self.low) / (self.high - self.low)
        return f'{100 * min(1.0, max(0.0, share)):.2f}%'

    def labels(self) -> list[tuple[str | None, str]]:
        """
        Return place and text of each tick.
        """
        return [(self.place(t), number(t, self.digits)) for t in self.ticks]


@dataclass(frozen=True)
class Mark:
    """
    The places of one row: score, wide interval (partners sampled), narrow one (fixed).
    """

    score: str | None
    low: str | None
    high: str | None
    low_fixed: str | None
    high_fixed: str | None


def axis_for(rows: Sequence[Mapping[str, Any]], ticks: int = 4) -> Axis:
    """
    Return the axis on which every score and interval of ``rows`` has a place.
    """
    names = ('score', 'low', 'high', 'low_fixed', 'high_fixed')
    values = _finite(row[name] for row in rows for name in names)
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if high - low <= 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    step = round_step((high - low) / ticks)
    first = math.ceil(low / step)
    count = math.floor(high / step) - first + 1
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    found = tuple((first + k) * step for k in range(count))
    return Axis(low, high, found, digits)


def round_step(about: float) -> float:
    """
    Return the smallest of 1, 2, 5 times a power of ten that is not below ``about``.
    """
    power = 10.0 ** math.floor(math.log10(about))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= about * (1 - 1e-9))


def mark(axis: Axis, row: Mapping[str, Any]) -> Mark:
    """
    Return where one row's marks go.
    """
    return Mark(
        score=axis.place(row['score']),
        low=axis.place(row['low']),
        high=axis.place(row['high']),
        low_fixed=axis.place(row['low_fixed']),
        high_fixed=axis.place(row['high_fixed']),
    )


def _finite(values: Iterable[float | None]) -> list[float]:
    return [float(v) for v in values if v is not None and math.isfinite(v)]
