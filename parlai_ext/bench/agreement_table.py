"""
The agreement of a scorer's variants with people as a table, and as CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from parlai_ext.core.display import (
    number,
    one_line,
    pad_cell,
    spreadsheet_text,
    wrap_lines,
)

COEFFICIENTS = {'spearman': 'Spearman', 'pearson': 'Pearson'}
COLUMNS = ('level', 'dimension', 'variant', 'n', 'dropped')
BOUNDS = ('value', 'low', 'high')
WORDS = {'dialogue': 'dialogue by dialogue', 'system': 'system by system'}
CELL = 24


def agreement_table(found: Mapping[str, Any]) -> str:
    """
    Return the table for a terminal, 88 columns wide: one block for each level.
    """
    lines: list[str] = []
    for level, rows in groupby(found['rows'], key=lambda row: row['level']):
        lines += [*_level(level, list(rows)), '']
    lines.append('in brackets: 95 % interval')
    for note in found['notes']:
        lines += wrap_lines(f'note: {note}')
    return '\n'.join(lines)


def _level(level: str, rows: list[Mapping[str, Any]]) -> Iterator[str]:
    variants = list(dict.fromkeys(row['variant'] for row in rows))
    head = ''.join(f'  {name:<{CELL - 2}}' for name in variants)
    yield f'agreement with people, {WORDS[level]}'
    yield f'{"":12}{head}'.rstrip()
    for dimension, own in groupby(rows, key=lambda row: row['dimension']):
        cells = {row['variant']: row for row in own}
        items = max(row['n'] for row in cells.values())
        yield f'{pad_cell(one_line(dimension), 40).rstrip()} (n {items})'
        for key, word in COEFFICIENTS.items():
            said = (f'  {_cell(cells[v][key]):<{CELL - 2}}' for v in variants)
            yield f'  {word:<10}{"".join(said)}'.rstrip()
        for reason in dict.fromkeys(_reasons(cells)):
            yield from wrap_lines(reason, '  ')


def _cell(found: Mapping[str, float | None]) -> str:
    if found['value'] is None:
        return '–'
    if found['low'] is None:
        return f'{number(found["value"], 3)} no interval'
    limits = f'[{number(found["low"], 3)}, {number(found["high"], 3)}]'
    return f'{number(found["value"], 3)} {limits}'


def _reasons(cells: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for variant, row in cells.items():
        if 'reason' in row:
            yield f'{variant}: {row["reason"]}'
        if row['n'] and row['dropped']:
            yield f'{variant}: {row["dropped"]} more have no score'


def agreement_csv(found: Mapping[str, Any]) -> str:
    """
    Return the rows as CSV; what does not exist is an empty cell.
    """
    names = [f'{key}{end}' for key in COEFFICIENTS for end in ('', '_low', '_high')]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow([*COLUMNS, *names, 'reason'])
    for row in found['rows']:
        numbers = [row[key][bound] for key in COEFFICIENTS for bound in BOUNDS]
        cells = [row[c] for c in COLUMNS]
        words = [
            spreadsheet_text(one) if isinstance(one, str) else one for one in cells
        ]
        writer.writerow([*words, *numbers, row.get('reason', '')])
    return out.getvalue()
