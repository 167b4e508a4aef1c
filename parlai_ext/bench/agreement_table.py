"""
The agreement of a scorer with people as a table for a terminal, and as CSV.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from parlai_ext.core.display import (
    DASH,
    number,
    one_line,
    pad_cell,
    wrap_lines,
)
from parlai_ext.files.csv_file import spreadsheet_csv

COEFFICIENTS = {'spearman': 'Spearman', 'pearson': 'Pearson'}
COLUMNS = ('level', 'dimension', 'variant', 'n', 'dropped')
BOUNDS = ('value', 'low', 'high')
LEVELS = {'dialogue': 'dialogue by dialogue', 'system': 'system by system'}
CELL_WIDTH = 24


def agreement_table(agreement: Mapping[str, Any]) -> str:
    """
    Return the table for a terminal, 88 columns wide: one block for each level.
    """
    lines: list[str] = []
    for level, rows in groupby(agreement['rows'], key=lambda row: row['level']):
        lines += [*_level_lines(level, list(rows)), '']
    lines.append('in brackets: 95 % interval')
    for note in agreement['notes']:
        lines += wrap_lines(f'note: {note}')
    return '\n'.join(lines)


def _level_lines(level: str, rows: list[Mapping[str, Any]]) -> Iterator[str]:
    """
    Yield the lines of one level: for each dimension, its coefficients by variant.
    """
    variants = list(dict.fromkeys(row['variant'] for row in rows))
    head = ''.join(f'  {name:<{CELL_WIDTH - 2}}' for name in variants)
    yield f'agreement with people, {LEVELS[level]}'
    yield f'{"":12}{head}'.rstrip()
    for dimension, dimension_rows in groupby(rows, key=lambda row: row['dimension']):
        cells = {row['variant']: row for row in dimension_rows}
        items = max(row['n'] for row in cells.values())
        yield f'{pad_cell(one_line(dimension), 40).rstrip()} (n {items})'
        for key, word in COEFFICIENTS.items():
            columns = (f'  {_cell(cells[v][key]):<{CELL_WIDTH - 2}}' for v in variants)
            yield f'  {word:<10}{"".join(columns)}'.rstrip()
        for reason in dict.fromkeys(_reasons(cells)):
            yield from wrap_lines(reason, '  ')


def _cell(correlation: Mapping[str, float | None]) -> str:
    """
    Return a correlation as text, with its interval.
    """
    if correlation['value'] is None:
        return DASH
    if correlation['low'] is None:
        return f'{number(correlation["value"], 3)} no interval'
    ends = f'[{number(correlation["low"], 3)}, {number(correlation["high"], 3)}]'
    return f'{number(correlation["value"], 3)} {ends}'


def _reasons(cells: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """
    Yield why a variant has no correlation, and how many of its points have no score.
    """
    for variant, row in cells.items():
        if 'reason' in row:
            yield f'{variant}: {row["reason"]}'
        if row['n'] and row['dropped']:
            yield f'{variant}: {row["dropped"]} more have no score'


def agreement_csv(agreement: Mapping[str, Any]) -> str:
    """
    Return the rows as CSV; a value that does not exist is an empty cell.
    """
    names = [f'{key}{end}' for key in COEFFICIENTS for end in ('', '_low', '_high')]
    lines: list[list[Any]] = [[*COLUMNS, *names, 'reason']]
    for row in agreement['rows']:
        numbers = [row[key][bound] for key in COEFFICIENTS for bound in BOUNDS]
        lines.append([*(row[c] for c in COLUMNS), *numbers, row.get('reason', '')])
    return spreadsheet_csv(lines)
