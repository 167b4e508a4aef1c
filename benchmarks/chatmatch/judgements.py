"""
Read the judges' ranks and ratings of systems: ChatMatch's spreadsheet, or a CSV.

The spreadsheet has one block per dimension: a row with the dimension's name and the
systems, then one row per judge. The block whose name holds ``rank`` is the overall rank
(1 is best), called `overall`. In a CSV the dimension `overall` holds ranks likewise.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from parlai_ext.core import UserError
from parlai_ext.files import read_human_scores
from parlai_ext.ranking.agreement import AnnotatorRanks

OVERALL = 'overall'
Judgements = Mapping[str, AnnotatorRanks]  # by dimension
# the same while it is read: dimension -> judge -> system -> value
Blocks = dict[str, dict[str, dict[str, float | None]]]


def read_judgements(path: str | Path) -> Judgements:
    """
    Return dimension -> judge -> system -> value, `None` for an empty cell.

    :raises UserError: names the file and the row, or the package that is missing.
    """
    if Path(path).suffix.lower() == '.xlsx':
        try:
            book = import_module('openpyxl').load_workbook(path, data_only=True)
            rows = book.worksheets[0].iter_rows(values_only=True)
            return judgements_from_rows(rows)
        except (ImportError, BadZipFile, LookupError, ValueError, OSError) as error:
            raise UserError(f'{path}: no readable .xlsx spreadsheet: {error}') from None
    blocks: Blocks = {}
    for one in read_human_scores(path):
        if one.rater is None:
            raise UserError(f'{path}: a column `rater` is needed: who judged')
        block = blocks.setdefault(one.dimension, {})
        block.setdefault(one.rater, {})[one.system] = one.value
    return blocks


def judgements_from_rows(rows: Iterable[Sequence[Any]]) -> Judgements:
    """
    Return the judgements in the rows of a spreadsheet.

    :raises ValueError: for a cell that is no number.
    :raises LookupError: for a judge before any dimension.
    """
    blocks: Blocks = {}
    dimension, systems = '', ()
    for head, *cells in rows:
        if isinstance(head, str) and not _all_numbers(cells):
            if any(cells):  # otherwise a title
                systems = [one and str(one).strip() for one in cells]
                dimension = head.strip().casefold()
                dimension = OVERALL if 'rank' in dimension else dimension
                blocks[dimension] = {}
        elif head is not None:
            blocks[dimension][str(head)] = {
                name: None if one is None else float(one)
                for name, one in zip(systems, cells, strict=False)
                if name  # a column may have no name
            }
    return blocks


def _all_numbers(cells: Sequence[Any]) -> bool:
    """
    True if the filled cells are a judge's numbers; the judge's name may be a text.
    """
    filled = [one for one in cells if one is not None]
    return bool(filled) and all(isinstance(one, int | float) for one in filled)
