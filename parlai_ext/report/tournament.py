"""
A tournament for people: its cross-table, points by dimension and ratings.

Works on what `ranking.json` holds under ``tournament``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from parlai_ext.core.display import (
    join_names,
    number,
    one_line,
    pad_cell,
    wrap_lines,
)
from parlai_ext.ranking.ratings import NORMAL_BOUND

if TYPE_CHECKING:
    import pandas

# what fits into a terminal
MOST_SYSTEMS, MOST_DIMENSIONS = 9, 7
NAME = 18


def by_rating(ranking: Mapping[str, Any]) -> list[str]:
    """
    Return the systems of a tournament, best first; those without a rating last.
    """
    found = ranking['tournament']
    values = found['ratings'][found['rating']]['values']

    def key(name: str) -> tuple[bool, float, str]:
        value = values.get(name)
        return (value is None, -(value or 0.0), name)

    return sorted(found['systems'], key=key)


def totals(ranking: Mapping[str, Any]) -> dict[str, int]:
    """
    Return each system's points over all games and dimensions.
    """
    points = ranking['tournament']['dimension_points']
    return {name: sum(of.values()) for name, of in points.items()}


def with_uncertainty(ranking: Mapping[str, Any], name: str) -> str:
    """
    Return a system's rating as text, with a standard deviation where there is one.
    """
    found = ranking['tournament']
    one = found['ratings'][found['rating']]
    value, spread = one['values'].get(name), one['spreads'].get(name)
    if value is None:
        return '–'
    shown = number(value, 1)
    return shown if spread is None else f'{shown} ± {number(spread, 1)}'


def in_short(ranking: Mapping[str, Any]) -> str:
    """
    Return the size of a tournament and its rule in one sentence.
    """
    found = ranking['tournament']
    said = f'Tournament of {found["n_games"]} games, rated by {found["rating"]}'
    if found['rating'] in ('openskill', 'trueskill'):
        orders = f'{found["shuffles"]} shuffled orders'
        said += f' (mean of {orders} ± standard deviation)'
    reason = found['ratings'][found['rating']]['reason']
    return f'{said}: undefined: {reason}.' if reason else f'{said}.'


def leader(ranking: Mapping[str, Any]) -> str:
    """
    Say who is first by the rating, and whose rating is too near to tell.
    """
    names = by_rating(ranking)
    found = ranking['tournament']
    one = found['ratings'][found['rating']]
    if not names or one['values'].get(names[0]) is None:
        reason = one['reason'] or 'there is no rating'
        return f'No system is first by {found["rating"]}: undefined: {reason}.'
    best = one['values'][names[0]]
    first = [name for name in names if one['values'].get(name) == best]
    games = f' in {found["n_games"]} games' if found['n_games'] else ''
    of = f'of {len(names)} systems{games}'
    if len(first) == len(names):
        return f'By {found["rating"]} the {of.removeprefix("of ")} are all equal.'
    if len(first) > 1:
        return f'By {found["rating"]}, {" and ".join(first)} share the lead {of}.'
    shown = with_uncertainty(ranking, names[0])
    said = f'By {found["rating"]}, {names[0]} comes first {of} ({shown})'
    near = [n for n in names[1:] if _near(best, names[0], one, n)]
    within = 'within 1.96 standard deviations'
    return (
        f'{said}; its lead over {join_names(near)} is {within}.' if near else f'{said}.'
    )


def _near(best: float, first: str, rating: Mapping[str, Any], other: str) -> bool:
    value, spreads = rating['values'].get(other), rating['spreads']
    if value is None or not {first, other} <= set(spreads):
        return False
    spread = math.hypot(spreads[first], spreads[other])
    return bool(best - value <= NORMAL_BOUND * spread)


def notes(ranking: Mapping[str, Any]) -> list[str]:
    """
    Return what a reader of the tournament must be told.
    """
    found = ranking['tournament']
    said = list(found['notes'])
    if found['incomplete'] and found['rating'] != 'sum_of_ranks':
        said.append(f'the tournament is not complete: {found["incomplete"]}')
    for name, one in found['ratings'].items():
        if one['reason'] and one['reason'] != found['incomplete']:
            said.append(f'{name} is undefined: {one["reason"]}')
    return said


def terminal_lines(ranking: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield the cross-table and the points by dimension, where they fit into 88 columns.
    """
    found = ranking['tournament']
    names = by_rating(ranking)
    yield from wrap_lines(in_short(ranking))
    if len(names) > MOST_SYSTEMS or len(found['dimensions']) > MOST_DIMENSIONS:
        yield '  its tables are too wide for a terminal: see report.html'
        return
    sums = totals(ranking)
    yield '  points of each match'
    heads = ''.join(f'{i:>5}' for i in range(1, len(names) + 1))
    yield f'      {"":{NAME}}{heads}{"sum":>6}{"games w-d-l":>13}'
    for i, name in enumerate(names, 1):
        row = found['cross_table'][name]
        cells = ''.join(f'{_cell(row[other]):>5}' for other in names)
        record = found['records'][name]
        games = '-'.join(str(record[f'games_{end}']) for end in ENDS)
        yield f'  {i:>2}  {_name(name)}{cells}{sums[name]:>6}{games:>13}'
    yield '  points of each dimension'
    heads = ''.join(f'{one_line(d)[:8]:>9}' for d in found['dimensions'])
    yield f'      {"":{NAME}}{heads}'
    for i, name in enumerate(names, 1):
        of = found['dimension_points'][name]
        cells = ''.join(f'{of[d]:>9}' for d in found['dimensions'])
        yield f'  {i:>2}  {_name(name)}{cells}'


ENDS = ('won', 'drawn', 'lost')


def _name(name: str) -> str:
    return pad_cell(one_line(name), NAME)


def _cell(points: int | None) -> str:
    return '–' if points is None else str(points)


def with_points(
    frame: pandas.DataFrame, ranking: Mapping[str, Any]
) -> pandas.DataFrame:
    """
    Return a leaderboard with points and the rating's standard deviation, as columns.
    """
    if 'tournament' not in ranking:
        return frame
    found = ranking['tournament']
    points, sums = found['dimension_points'], totals(ranking)
    spreads = found['ratings'][found['rating']]['spreads']
    rated = found['name']
    rows = list(zip(frame['dimension'], frame['system'], strict=True))
    columns: dict[str, Sequence[Any]] = {
        'points': [
            sums.get(name)
            if dimension == rated
            else points.get(name, {}).get(dimension)
            for dimension, name in rows
        ],
        'rating_sd': [
            spreads.get(name) if dimension == rated else None
            for dimension, name in rows
        ],
    }
    kinds = {'points': 'Int64', 'rating_sd': 'Float64'}
    return frame.assign(**columns).astype(kinds)


def page_data(ranking: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    Return what the page shows of a tournament; `None` when there was none.
    """
    if 'tournament' not in ranking:
        return None
    found = ranking['tournament']
    names, sums = by_rating(ranking), totals(ranking)
    others = [name for name in found['ratings'] if name != found['rating']]
    columns = {one: _column(found['ratings'][one]['values'], names) for one in others}
    return {
        'line': in_short(ranking),
        'name': found['name'],
        'dimensions': found['dimensions'],
        'notes': notes(ranking),
        'others': [title(one) for one in others],
        'rows': [
            {
                'system': name,
                'rating': with_uncertainty(ranking, name),
                'cells': [found['cross_table'][name][other] for other in names],
                'sum': sums[name],
                'record': {unit: _record(found, name, unit) for unit in UNITS},
                'points': [
                    found['dimension_points'][name][d] for d in found['dimensions']
                ],
                'others': [columns[one][name] for one in others],
            }
            for name in names
        ],
        'taus': _taus(found, [found['rating'], *others]),
    }


UNITS = ('games', 'matches')
TITLES = {
    'bradley_terry': 'Bradley–Terry',
    'sum_of_ranks': 'sum of ranks, negated',
}


def title(method: str) -> str:
    """
    Return what a reader calls a rating.
    """
    return TITLES.get(method, method)


def _column(values: Mapping[str, float | None], names: Sequence[str]) -> dict[str, str]:
    """
    Return ratings as text, whole numbers as such.
    """
    known = [v for v in map(values.get, names) if v is not None]
    digits = 2 if any(v % 1 for v in known) else 0
    return {name: number(values.get(name), digits) for name in names}


def _record(found: Mapping[str, Any], name: str, unit: str) -> str:
    return '–'.join(str(found['records'][name][f'{unit}_{end}']) for end in ENDS)


def _taus(found: Mapping[str, Any], methods: Sequence[str]) -> list[dict[str, Any]]:
    """
    Return each rating's tau with the reference, or why there is none.
    """
    return [
        {'method': title(method), **found['ratings'][method]['tau']}
        for method in methods
        if 'tau' in found['ratings'][method]
    ]
