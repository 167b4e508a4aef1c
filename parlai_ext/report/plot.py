"""
Scores with both intervals on one axis: on the page, and as a figure of matplotlib.

The page draws one small SVG for each row of the leaderboard, so that names, numbers
and intervals line up, follow the reader's colours and stay text. Places are percentages
of the plot's width, a pure function of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from parlai_ext.core import frozen, require_known
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.results.ranking import Ranking
from parlai_ext.view import number, one_line, pad_cell

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# room left and right of the outermost mark, as a share of the axis
MARGIN = 0.06
WIDEST_NAME = 34  # letters beside a figure of matplotlib


@frozen
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


def axis_for(standings: Sequence[Standing]) -> Axis:
    """
    Return the axis on which every score and interval has a place.
    """
    names = ('score', 'low', 'high', 'low_fixed', 'high_fixed')
    return axis_over(getattr(s, name) for s in standings for name in names)


def axis_over(given: Iterable[float | None]) -> Axis:
    """
    Return an axis on which each of these values has a place; without values it has no
    ticks.
    """
    values = [float(v) for v in given if v is not None and math.isfinite(v)]
    if not values:
        return Axis(0.0, 1.0, (), 0)
    low, high = min(values), max(values)
    if high - low <= 1e-12 * max(1.0, abs(high)):
        low, high = low - 0.5, high + 0.5
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    # about four ticks: the smallest of 1, 2 and 5 times a power of ten that is enough
    about = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(about))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= about * (1 - 1e-9))
    first = math.ceil(low / step)
    count = math.floor(high / step) - first + 1
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    places = tuple((first + k) * step for k in range(count))
    return Axis(low, high, places, digits)


def plot_ranking(ranking: Ranking, dimension: str | None) -> Figure:
    """
    Draw the systems of a ranking, best on top, with their scores and 95 % intervals.

    The thin line is the interval for partners like these, the thick one for these
    partners only; a hollow dot marks a floor or a system that is not ranked.

    :param dimension: the dimension or rating to draw (`None`: the main one).
    :return: a figure of matplotlib, bound to no window; `savefig` writes it.
    :raises UserError: for a dimension that the ranking lacks.
    """
    from matplotlib.figure import Figure

    name = dimension or ranking.leading_dimension
    require_known(name, ranking.dimensions, f'plot: no dimension {name!r}')
    standings = best_first(ranking.standings[name])
    figure = Figure(figsize=(7, 1.2 + 0.35 * len(standings)), layout='constrained')
    axes = figure.add_subplot()
    for y, standing in enumerate(standings):
        is_claimed = standing.rank is not None and not standing.is_floor
        for low, high, width in (
            (standing.low, standing.high, 1.2),
            (standing.low_fixed, standing.high_fixed, 3.5),
        ):
            if low is not None and high is not None:
                axes.plot([low, high], [y, y], color='C0', linewidth=width)
        if standing.score is not None:
            face = 'C0' if is_claimed else 'white'
            axes.plot([standing.score], [y], 'o', color='C0', markerfacecolor=face)
    shown = [pad_cell(one_line(one.system), WIDEST_NAME).rstrip() for one in standings]
    axes.set_yticks(range(len(shown)), shown, parse_math=False)
    axes.set_ylim(len(standings) - 0.5, -0.5)
    axes.set_xlabel(f'{one_line(name)} (95 % intervals)', parse_math=False)
    axes.grid(axis='x', alpha=0.3)
    return figure
