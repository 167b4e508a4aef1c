"""
What judges said of systems: ChatMatch's spreadsheet, or this project's CSV.

The spreadsheet has one block a dimension: a row with the dimension's name and the
systems, then one row a judge. The block whose name holds ``rank`` is the overall rank
(1 is best), called `overall`. In a CSV the dimension `overall` holds ranks likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from parlai_ext.core.errors import UserError
from parlai_ext.files.human_scores import read_human_scores
from parlai_ext.ranking.agreement import AnnotatorRanks

OVERALL = 'overall'
Said = dict[str, AnnotatorRanks]


def read_judgements(path: str | Path) -> Said:
    """
    Return dimension -> judge -> system -> value, `None` for an empty cell.

    :raises UserError: names the file and the row, or the package that is missing.
    """
    if Path(path).suffix.lower() == '.xlsx':
        return from_rows(_cells(path), str(path))
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for one in read_human_scores(path):
        if one.rater is None:
            raise UserError(f'{path}: a column `rater` is needed: who judged')
        of = found.setdefault(one.dimension, {}).setdefault(one.rater, {})
        of[one.system] = one.value
    return {**found}


def from_rows(rows: Iterable[Sequence[Any]], path: str) -> Said:
    """
    Return the judgements of a spreadsheet's rows.
    """
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    systems: list[str | None] = []
    block: dict[str, dict[str, float | None]] | None = None
    for number, row in enumerate(rows, 1):
        head, *cells = row
        if head is None:
            continue
        if isinstance(head, str) and not _numbers(cells):
            named = [None if one is None else str(one).strip() for one in cells]
            if any(named):  # otherwise a title
                systems = named
                _once([one for one in systems if one], f'{path}: row {number}')
                if (name := _dimension(head)) in found:
                    raise UserError(f'{path}: row {number}: {name!r} is there already')
                block = found[name] = {}
        elif block is None:
            raise UserError(f'{path}: row {number}: judge {head} before any dimension')
        else:
            where = f'{path}: row {number}'
            if str(head) in block:
                raise UserError(f'{where}: judge {head} is there already')
            said = zip(systems, cells, strict=False)  # a column may have no name
            block[str(head)] = {
                name: _value(one, name, where) for name, one in said if name
            }
    if not found:
        raise UserError(
            f'{path}: no judgements; a block starts with a row: dimension, systems'
        )
    return {**found}


def _numbers(cells: Sequence[Any]) -> bool:
    """
    Tell whether cells are what a judge said, whose name may be a text.
    """
    filled = [one for one in cells if one is not None]
    return bool(filled) and all(isinstance(one, int | float) for one in filled)


def _dimension(head: str) -> str:
    name = head.strip().casefold()
    return OVERALL if 'rank' in name else name


def _once(systems: Sequence[str], where: str) -> None:
    twice = sorted({name for name in systems if systems.count(name) > 1})
    if twice:
        raise UserError(f'{where}: {twice[0]!r} is named twice')


def _value(value: Any, name: str, where: str) -> float | None:
    if value is None or isinstance(value, str) and not value.strip():
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f'{where}: {name}: a number is expected, not {value!r}')
    return float(value)


def _cells(path: str | Path) -> list[tuple[Any, ...]]:
    try:
        openpyxl: Any = import_module('openpyxl')
    except ImportError:
        raise UserError(
            f'{path}: reading a spreadsheet needs openpyxl; pip install openpyxl, or '
            'give a CSV with columns system,dimension,value,rater'
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        rows = book.worksheets[0].iter_rows(values_only=True)
        return [tuple(row) for row in rows if row]
    except (BadZipFile, KeyError, ValueError, OSError) as e:
        if isinstance(e, FileNotFoundError):
            raise UserError(f'{path}: no such file') from None
        raise UserError(f'{path}: not a readable .xlsx spreadsheet') from None
