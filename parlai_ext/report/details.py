"""
The tables behind a leaderboard, ready to draw: every pair of systems, each system with
each partner, and how the scores of a system spread.

Colours follow classes of the style sheet, since the page allows no other styles; each
cell has its number as text, so that nothing is told by colour alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parlai_ext.core.display import digits_for, interval, number, percent
from parlai_ext.core.floors import is_floor
from parlai_ext.ranking.pairs import PairDifference
from parlai_ext.ranking.spreads import CellMean, Spread
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report.plot import Axis, axis_over
from parlai_ext.results.details import DimensionDetails

# larger tables are cut: nobody reads them, and they would make the page heavy
MOST_SYSTEMS, MOST_PARTNERS = 30, 40
SHADES = 7  # of the heat map, from the lowest score to the highest
PAIR_COLUMNS = (
    *('dimension', 'first', 'second', 'difference', 'low', 'high'),
    *('win_rate', 'n_dialogues', 'apart'),
)


def details_data(
    standings: Sequence[Standing], details: DimensionDetails
) -> dict[str, Any]:
    """
    Return the tables of one dimension for the page, systems best first; a table that
    would say nothing is empty.
    """
    names = [one.system for one in best_first(standings) if one.score is not None]
    shown = names[:MOST_SYSTEMS]
    digits = digits_for([standing.score for standing in standings])
    return {
        'systems': shown,
        'left_out': len(names) - len(shown),
        'pairs': _pair_rows(shown, details, digits) if len(shown) > 1 else [],
        'heat': _heat_data(shown, details, digits),
        'spread': _spread_data(shown, details.spreads, digits),
    }


# -------------------------------------------------------------------------- the pairs


def _pair_rows(
    names: Sequence[str], details: DimensionDetails, digits: int
) -> list[dict[str, Any]]:
    """
    Return a row for each system, with a cell for each other.
    """
    by_names = {(one.first, one.second): one for one in details.pairs}
    by_names |= {(one.second, one.first): one.reversed for one in details.pairs}
    return [
        {
            'system': name,
            'floor': is_floor(name),
            'cells': [
                None
                if name == other
                else _pair_cell(by_names.get((name, other)), digits)
                for other in names
            ],
        }
        for name in names
    ]


def _pair_cell(pair: PairDifference | None, digits: int) -> dict[str, Any]:
    if pair is None:
        return {'text': number(None), 'interval': '', 'wins': '', 'style': ''}
    return {
        'text': signed(pair.difference, digits),
        'interval': interval(pair.low, pair.high, digits),
        'wins': percent(pair.win_rate),
        'style': _pair_style(pair),
    }


def _pair_style(pair: PairDifference) -> str:
    """
    Return the class of a cell in which the ranking tells the two systems apart, which
    it does where the interval leaves out 0.
    """
    if not pair.apart:
        return ''
    return 'ahead' if pair.difference > 0 else 'behind'


def signed(value: float | None, digits: int = 2) -> str:
    """
    Return a difference with its sign, also where it is positive.
    """
    text = number(value, digits)
    return f'+{text}' if value is not None and value > 0 and text[0] != '+' else text


def pair_table(details: Mapping[str, DimensionDetails]) -> list[tuple[Any, ...]]:
    """
    Return the pairs of all dimensions as rows of `PAIR_COLUMNS`.
    """
    return [
        (
            *(dimension, one.first, one.second, one.difference, one.low, one.high),
            *(one.win_rate, one.n, one.apart),
        )
        for dimension, own in details.items()
        for one in own.pairs
    ]


# ------------------------------------------------------------------------ the heat map


def _heat_data(
    names: Sequence[str], details: DimensionDetails, digits: int
) -> dict[str, Any]:
    """
    Return a row of means for each system, with a cell for each partner; nothing where
    there is one partner, with which the means are those of the leaderboard.
    """
    if not names or len(details.partners) < 2:
        return {}
    partners = details.partners[:MOST_PARTNERS]
    means = [
        details.cells[name][partner].mean
        for name in names
        for partner in partners
        if partner in details.cells[name]
    ]
    low, high = min(means, default=0.0), max(means, default=0.0)
    return {
        'partners': partners,
        'left_out': len(details.partners) - len(partners),
        'low': number(low, digits),
        'high': number(high, digits),
        'shades': range(SHADES),
        'rows': [
            {
                'system': name,
                'floor': is_floor(name),
                'cells': [
                    _heat_cell(details.cells[name].get(partner), low, high, digits)
                    for partner in partners
                ],
            }
            for name in names
        ],
    }


def _heat_cell(
    cell: CellMean | None, low: float, high: float, digits: int
) -> dict[str, Any]:
    if cell is None:
        return {'text': number(None), 'shade': None, 'n': 0}
    share = (cell.mean - low) / (high - low) if high > low else 0.5
    shade = min(SHADES - 1, int(share * SHADES))
    return {'text': number(cell.mean, digits), 'shade': shade, 'n': cell.n}


# ------------------------------------------------------------------------- the spreads


def _spread_data(
    names: Sequence[str], spreads: Mapping[str, Spread], digits: int
) -> dict[str, Any]:
    """
    Return, for each system, a small histogram of its dialogues and their quantiles.
    """
    if not spreads:
        return {}
    any_spread = next(iter(spreads.values()))
    axis = axis_over((any_spread.lowest, any_spread.highest))
    tallest = max(max(s.counts) / s.n for s in spreads.values())
    return {
        'axis': axis,
        'rows': [
            _spread_row(name, spreads[name], axis, tallest, digits)
            for name in names
            if name in spreads
        ],
    }


def _spread_row(
    name: str, spread: Spread, axis: Axis, tallest: float, digits: int
) -> dict[str, Any]:
    low, first, middle, third, high = spread.quantiles
    return {
        'system': name,
        'floor': is_floor(name),
        'n': spread.n,
        'bars': _bars_path(spread, axis, tallest),
        'places': [axis.place(value) for value in spread.quantiles],
        'median': number(middle, digits),
        'half': interval(first, third, digits),
        'most': interval(low, high, digits),
    }


def _bars_path(spread: Spread, axis: Axis, tallest: float) -> str:
    """
    Return the outline of a histogram as an SVG path in a field of 1000 x 100.
    """
    width = (spread.highest - spread.lowest) / len(spread.counts)
    parts = []
    for k, count in enumerate(spread.counts):
        if count:
            left, right = (
                1000 * (spread.lowest + i * width - axis.low) / (axis.high - axis.low)
                for i in (k, k + 1)
            )
            top = 100 - 100 * count / spread.n / tallest
            parts.append(f'M{left:.0f} 100V{top:.0f}H{right:.0f}V100Z')
    return ''.join(parts)
