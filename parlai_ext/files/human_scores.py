"""
What people said of systems, read from a CSV file.

Columns `system`, `dimension` and `value`; optional `rater` and `dialogue_id`. One row
is one judgement; a file of system means has one row for each system and dimension.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.files.text_file import read_utf8

NEEDED = ('system', 'dimension', 'value')
COLUMNS = (*NEEDED, 'rater', 'dialogue_id')


def read_human_scores(path: str | Path) -> list[HumanJudgement]:
    """
    Return the judgements of a file, in its order.

    :raises UserError: names file, line and column of the first thing that is wrong.
    """
    rows = _rows(path)
    line, header = next(rows, (1, []))
    place = _columns(path, line, header)
    found: list[HumanJudgement] = []
    seen: dict[tuple[str | None, ...], int] = {}
    for line, cells in rows:
        if len(cells) != len(header):
            problem = f'{len(cells)} cells where the header has {len(header)}'
            raise UserError(
                f'{path}:{line}: {problem}; put a cell with commas in quotes'
            )
        judgement = _judgement(path, line, {c: cells[i] for c, i in place.items()})
        said = judgement.system, judgement.dimension, judgement.rater
        key = (*said, judgement.dialogue_id)
        if key in seen and (judgement.rater or judgement.dialogue_id):
            raise UserError(
                f'{path}:{line}: the same judgement is in line {seen[key]} already '
                '(same system, dimension, rater and dialogue_id)'
            )
        seen[key] = line
        found.append(judgement)
    if not found:
        raise UserError(f'{path}: no judgements: the file has a header and no rows')
    return found


def _rows(path: str | Path) -> Iterator[tuple[int, list[str]]]:
    """
    Yield the rows that are not empty, each with the number of its first line.
    """
    text = read_utf8(path, 'human scores ')
    # the csv module counts lines itself; only \n ends one
    reader = csv.reader((line + '\n' for line in text.split('\n')), strict=True)
    last = 0
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield last + 1, [cell.strip() for cell in cells]
            last = reader.line_num
    except csv.Error as e:
        raise UserError(f'{path}:{last + 1}: not a CSV row: {e}') from None


def _columns(path: str | Path, line: int, header: list[str]) -> dict[str, int]:
    """
    Return where each known column is; refuse unknown, missing and repeated ones.
    """
    for name in header:
        if name not in COLUMNS:
            hint = nearest(name, COLUMNS)
            raise UserError(f'{path}:{line}: unknown column {name!r}; {hint}')
        if header.count(name) > 1:
            raise UserError(f'{path}:{line}: column {name!r} is given twice')
    for name in NEEDED:
        if name not in header:
            right = 'system,dimension,value[,rater,dialogue_id]'
            raise UserError(f'{path}:{line}: no column {name!r}; the header is {right}')
    return {name: header.index(name) for name in header}


def _judgement(path: str | Path, line: int, row: Mapping[str, str]) -> HumanJudgement:
    """
    Return one row as a judgement.
    """
    for name in ('system', 'dimension'):
        if not row[name]:
            raise UserError(f'{path}:{line}: column {name}: is empty')
    return HumanJudgement(
        row['system'],
        row['dimension'],
        _number(path, line, row['value']),
        row.get('rater') or None,
        row.get('dialogue_id') or None,
    )


def _number(path: str | Path, line: int, cell: str) -> float:
    """
    Return a finite number; thousands separators and decimal commas are none.
    """
    try:
        value = float(cell.replace('_', 'x'))
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(
            f'{path}:{line}: column value: a number such as 3.5 is expected, '
            f'not {cell!r}'
        )
    return value
