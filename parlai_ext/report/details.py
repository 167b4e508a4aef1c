"""
The tables behind a leaderboard, ready to draw: every pair of systems, each system with
each partner, and how the scores of a system spread.

Colours follow classes of the style sheet, since the page allows no other styles; each
cell has its number as text, so that nothing is told by colour alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from parlai_ext.ranking.standings import CellMean, best_first
from parlai_ext.report.plot import axis_over
from parlai_ext.report.summary import leaders_on
from parlai_ext.report.view import DimensionDetails, RankingView
from parlai_ext.view import digits_for
from parlai_ext.view.page import Section

# larger tables are cut: nobody reads them, and they would make the page heavy
MOST_SYSTEMS, MOST_PARTNERS = 30, 40
SHADES = 7  # of the heat map, from the lowest score to the highest
Draw = Callable[[Sequence[str], DimensionDetails], dict[str, Any]]


def _section(
    view: RankingView, draw: Draw, id: str, title: str, **about: Any
) -> Section | None:
    """
    Return a section with a panel for each dimension; `None` where none shows anything.

    :param draw: makes what a panel shows of the systems, best first; nothing where that
        would say nothing.
    """
    panels = {}
    for name, details in view.details.items():
        standings = best_first(view.ranking.standings[name])
        systems = [one.system for one in standings if one.score is not None]
        drawn = draw(systems[:MOST_SYSTEMS], details)
        if drawn:
            drawn |= {
                'systems': systems[:MOST_SYSTEMS],
                'left_out': len(systems[MOST_SYSTEMS:]),
                'digits': digits_for([one.score for one in standings]),
            }
        panels[name] = drawn
    if not any(panels.values()):
        return None
    return Section(id, title, {'panels': panels, **about})


# -------------------------------------------------------------------------- the pairs


def pairs_section(view: RankingView) -> Section | None:
    """
    Return the section with the differences of all pairs of systems, by their names.
    """
    few = (leaders_on(view.ranking, name).few_partners for name in view.details)
    return _section(
        view,
        lambda names, one: {'pairs': one.pairs} if len(names) > 1 else {},
        'pairs',
        'Pairs',
        few_partners=next(filter(None, few), ''),
    )


# ------------------------------------------------------------------------ the heat map


def partners_section(view: RankingView) -> Section | None:
    """
    Return the section with the mean score of each system with each partner.
    """
    return _section(view, draw_partners, 'partners', 'Partners', shades=range(SHADES))


def draw_partners(names: Sequence[str], details: DimensionDetails) -> dict[str, object]:
    """
    Return the means by system and partner; nothing where there is one partner, with
    which the means are those of the leaderboard.
    """
    if not names or len(details.partners) < 2:
        return {}
    partners = details.partners[:MOST_PARTNERS]
    cells = details.cells
    means = [cells[n][p].mean for n in names for p in partners if p in cells[n]]
    low, high = min(means, default=0.0), max(means, default=0.0)

    def shade(cell: CellMean) -> int:
        share = (cell.mean - low) / (high - low) if high > low else 0.5
        return min(SHADES - 1, int(share * SHADES))

    return {
        'partners': partners,
        'partners_left_out': len(details.partners) - len(partners),
        'low': low,
        'high': high,
        'cells': cells,
        'shade': shade,
    }


# ------------------------------------------------------------------------- the spreads


def spread_section(view: RankingView) -> Section | None:
    """
    Return the section with a small histogram of each system's dialogues.
    """
    return _section(view, draw_spreads, 'spread', 'Spread')


def draw_spreads(names: Sequence[str], details: DimensionDetails) -> dict[str, object]:
    """
    Return the spread of each system's scores on one axis, and the left, right and upper
    ends of its histogram's bars in a field of 1000 x 100, from above.
    """
    spreads = details.spreads
    if not spreads:
        return {}
    any_spread = next(iter(spreads.values()))
    low, high = any_spread.lowest, any_spread.highest
    axis = axis_over((low, high))
    tallest = max(max(s.counts) / s.n for s in spreads.values())
    bins = np.linspace(low, high, len(any_spread.counts) + 1)
    places = 1000 * (bins - axis.low) / (axis.high - axis.low)
    rows = []
    for name in filter(spreads.__contains__, names):
        spread = spreads[name]
        tops = 100 - 100 * np.array(spread.counts) / spread.n / tallest
        rows.append((name, spread, zip(places, places[1:], tops, strict=False)))
    return {'axis': axis, 'rows': rows}
