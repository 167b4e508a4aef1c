"""
A tournament for readers: its cross-table, points by dimension and ratings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from parlai_ext.core.display import (
    join_names,
    number,
    one_line,
    pad_cell,
    wrap_lines,
)
from parlai_ext.ranking.intervals import FEWEST_OPENERS
from parlai_ext.ranking.ratings import NORMAL_BOUND
from parlai_ext.ranking.tournament import ENDS, UNITS
from parlai_ext.results.ranking import TournamentResult

# what fits into a terminal
MOST_SYSTEMS, MOST_DIMENSIONS = 9, 7
NAME_WIDTH = 18
RATING_TITLES = {
    'bradley_terry': 'Bradley–Terry',
    'sum_of_ranks': 'sum of ranks, negated',
}


def systems_by_rating(result: TournamentResult) -> list[str]:
    """
    Return the systems of a tournament, best first; those without a rating last.
    """
    values = result.chosen_rating.values

    def key(name: str) -> tuple[bool, float, str]:
        value = values.get(name)
        return (value is None, -(value or 0.0), name)

    return sorted(result.systems, key=key)


def rating_text(result: TournamentResult, name: str) -> str:
    """
    Return a system's rating as text, with a standard deviation where there is one.
    """
    rating = result.chosen_rating
    value, spread = rating.values.get(name), rating.spreads.get(name)
    if value is None:
        return '–'
    shown = number(value, 1)
    return shown if spread is None else f'{shown} ± {number(spread, 1)}'


def size_and_rule(result: TournamentResult) -> str:
    """
    Return the size of a tournament and its rating in one sentence.
    """
    text = f'Tournament of {result.n_games} games, rated by {result.rating}'
    if result.rating in ('openskill', 'trueskill'):
        orders = f'{result.shuffles} shuffled orders'
        text += f' (mean of {orders} ± standard deviation)'
    reason = result.chosen_rating.reason
    return f'{text}: undefined: {reason}.' if reason else f'{text}.'


def leader_sentence(result: TournamentResult, n_openers: int) -> str:
    """
    Return which system is first by the rating, and whose ratings are near to it.

    :param n_openers: over how many distinct openers games were played.
    """
    names = systems_by_rating(result)
    rating = result.chosen_rating
    best = rating.values.get(names[0]) if names else None
    if best is None:
        reason = rating.reason or 'there is no rating'
        return f'No system is first by {result.rating}: undefined: {reason}.'
    first = [name for name in names if rating.values.get(name) == best]
    games = f' in {result.n_games} games' if result.n_games else ''
    field = f'{len(names)} systems{games}'
    if len(first) == len(names):
        return f'By {result.rating} the {field} are all equal.'
    has_intervals = n_openers >= FEWEST_OPENERS
    many = '' if has_intervals else f' {_one_tournament(n_openers)}'
    if len(first) > 1:
        leaders = join_names(first)
        return f'By {result.rating}, {leaders} share the lead of {field}.{many}'
    shown = rating_text(result, names[0])
    place = 'comes first' if has_intervals else 'is rated highest'
    text = f'By {result.rating}, {names[0]} {place} of {field} ({shown})'
    near = [name for name in names[1:] if _is_close_behind(result, names[0], name)]
    if near and has_intervals:
        within = 'within 1.96 standard deviations'
        return f'{text}; its lead over {join_names(near)} is {within}.'
    return f'{text}.{many}'


def _one_tournament(n_openers: int) -> str:
    """
    Return that games over few openers say nothing of other openers.
    """
    openers = 'one opener' if n_openers == 1 else f'{n_openers} openers'
    return (
        f'All games are over {openers}: what holds over others is not known, and '
        f'intervals need {FEWEST_OPENERS} or more.'
    )


def _is_close_behind(result: TournamentResult, leader: str, other: str) -> bool:
    """
    True if the leader's rating is above the other system's by at most 1.96 standard
    deviations of their difference; false if one of them has no standard deviation.
    """
    rating = result.chosen_rating
    best, value = rating.values.get(leader), rating.values.get(other)
    if best is None or value is None or not {leader, other} <= set(rating.spreads):
        return False
    deviation = math.hypot(rating.spreads[leader], rating.spreads[other])
    return best - value <= NORMAL_BOUND * deviation


def notes(result: TournamentResult) -> list[str]:
    """
    Return what a reader of the tournament must be told.
    """
    lines = list(result.notes)
    if result.incomplete and result.rating != 'sum_of_ranks':
        lines.append(f'the tournament is not complete: {result.incomplete}')
    for name, rating in result.ratings.items():
        if rating.reason and rating.reason != result.incomplete:
            lines.append(f'{name} is undefined: {rating.reason}')
    return lines


def terminal_lines(result: TournamentResult) -> Iterator[str]:
    """
    Yield the cross-table and the points by dimension, where they fit into 88 columns.
    """
    names = systems_by_rating(result)
    yield from wrap_lines(size_and_rule(result))
    if len(names) > MOST_SYSTEMS or len(result.dimensions) > MOST_DIMENSIONS:
        yield '  its tables are too wide for a terminal: see report.html'
        return
    yield '  points of each match'
    heads = ''.join(f'{i:>5}' for i in range(1, len(names) + 1))
    yield f'      {"":{NAME_WIDTH}}{heads}{"sum":>6}{"games w-d-l":>13}'
    for i, name in enumerate(names, 1):
        row = result.cross_table[name]
        points = ['–' if row[other] is None else str(row[other]) for other in names]
        cells = ''.join(f'{point:>5}' for point in points)
        games = '-'.join(str(result.records[name][f'games_{end}']) for end in ENDS)
        total = result.total_points(name)
        yield f'  {i:>2}  {_name_cell(name)}{cells}{total:>6}{games:>13}'
    yield '  points of each dimension'
    heads = ''.join(f'{one_line(d)[:8]:>9}' for d in result.dimensions)
    yield f'      {"":{NAME_WIDTH}}{heads}'
    for i, name in enumerate(names, 1):
        by_dimension = result.dimension_points[name]
        cells = ''.join(f'{by_dimension[d]:>9}' for d in result.dimensions)
        yield f'  {i:>2}  {_name_cell(name)}{cells}'


def _name_cell(name: str) -> str:
    return pad_cell(one_line(name), NAME_WIDTH)


def page_data(result: TournamentResult) -> dict[str, Any]:
    """
    Return what the page shows of a tournament.
    """
    names = systems_by_rating(result)
    others = [name for name in result.ratings if name != result.rating]
    columns = {
        method: _rating_cells(result.ratings[method].values, names) for method in others
    }
    return {
        'line': size_and_rule(result),
        'name': result.name,
        'dimensions': result.dimensions,
        'notes': notes(result),
        'others': [RATING_TITLES.get(method, method) for method in others],
        'rows': [
            {
                'system': name,
                'rating': rating_text(result, name),
                'cells': [result.cross_table[name][other] for other in names],
                'sum': result.total_points(name),
                'record': {
                    unit: '–'.join(
                        str(result.records[name][f'{unit}_{end}']) for end in ENDS
                    )
                    for unit in UNITS
                },
                'points': [result.dimension_points[name][d] for d in result.dimensions],
                'others': [columns[method][name] for method in others],
            }
            for name in names
        ],
        'taus': [
            {'method': RATING_TITLES.get(method, method), 'tau': tau}
            for method in (result.rating, *others)
            if (tau := result.ratings[method].tau) is not None
        ],
    }


def _rating_cells(
    values: Mapping[str, float | None], names: Sequence[str]
) -> dict[str, str]:
    """
    Return ratings as text, whole numbers without decimals.
    """
    ratings = [value for value in map(values.get, names) if value is not None]
    digits = 2 if any(value % 1 for value in ratings) else 0
    return {name: number(values.get(name), digits) for name in names}
