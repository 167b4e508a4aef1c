"""
Read the judges' ranks and ratings of systems: ChatMatch's spreadsheet, or a CSV.

The spreadsheet has one block per dimension: a row with the dimension's name and the
systems, then one row per judge. The block whose name holds ``rank`` is the overall rank
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
Judgements = dict[str, AnnotatorRanks]  # by dimension
Block = dict[str, dict[str, float | None]]  # judge -> system -> value


def read_judgements(path: str | Path) -> Judgements:
    """
    Return dimension -> judge -> system -> value, `None` for an empty cell.

    :raises UserError: names the file and the row, or the package that is missing.
    """
    if Path(path).suffix.lower() == '.xlsx':
        return judgements_from_rows(_spreadsheet_rows(path), str(path))
    blocks: dict[str, Block] = {}
    for one in read_human_scores(path):
        if one.rater is None:
            raise UserError(f'{path}: a column `rater` is needed: who judged')
        block = blocks.setdefault(one.dimension, {})
        block.setdefault(one.rater, {})[one.system] = one.value
    return {**blocks}


def judgements_from_rows(rows: Iterable[Sequence[Any]], path: str) -> Judgements:
    """
    Return the judgements in the rows of a spreadsheet; ``path`` is for messages.
    """
    blocks: dict[str, Block] = {}
    systems: list[str | None] = []
    block: Block | None = None
    for number, row in enumerate(rows, 1):
        head, *cells = row
        where = f'{path}: row {number}'
        if head is None:
            continue
        if isinstance(head, str) and not _all_numbers(cells):
            names = [None if one is None else str(one).strip() for one in cells]
            if any(names):  # otherwise a title
                systems = names
                block = blocks[_dimension(head, systems, blocks, where)] = {}
        elif block is None:
            raise UserError(f'{where}: judge {head} before any dimension')
        else:
            if str(head) in block:
                raise UserError(f'{where}: judge {head} is there already')
            named = zip(systems, cells, strict=False)  # a column may have no name
            block[str(head)] = {
                name: _value(one, name, where) for name, one in named if name
            }
    if not blocks:
        raise UserError(
            f'{path}: no judgements; a block starts with a row: dimension, systems'
        )
    return {**blocks}


def _all_numbers(cells: Sequence[Any]) -> bool:
    """
    True if the filled cells are a judge's numbers; the judge's name may be a text.
    """
    filled = [one for one in cells if one is not None]
    return bool(filled) and all(isinstance(one, int | float) for one in filled)


def _dimension(
    head: str, systems: Sequence[str | None], blocks: dict[str, Block], where: str
) -> str:
    """
    Return the dimension that a block's first row names.
    """
    names = [one for one in systems if one]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f'{where}: {repeated[0]!r} is named twice')
    name = head.strip().casefold()
    name = OVERALL if 'rank' in name else name
    if name in blocks:
        raise UserError(f'{where}: {name!r} is there already')
    return name


def _value(value: Any, name: str, where: str) -> float | None:
    if value is None or isinstance(value, str) and not value.strip():
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f'{where}: {name}: a number is expected, not {value!r}')
    return float(value)


def _spreadsheet_rows(path: str | Path) -> list[tuple[Any, ...]]:
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
    except FileNotFoundError:
        raise UserError(f'{path}: no such file') from None
    except (BadZipFile, KeyError, ValueError, OSError):
        raise UserError(f'{path}: not a readable .xlsx spreadsheet') from None
