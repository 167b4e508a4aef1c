"""
CSV files as they are read: rows with their line numbers, headers checked.

Only the line feed ends a line, so that U+2028 and the like stay part of a cell. A row
has the number of its first line, since a quoted cell may hold line breaks.
"""

import csv
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from parlai_ext.core import UserError, nearest
from parlai_ext.files.text_file import text_lines

MAX_LINES = 50  # of one quoted cell in a file that breaks the rules of quoting
# columns that only EmpatheticDialogues' own files have; their rows may have one more
EMPATHETIC = {'speaker_idx', 'selfeval'}
CELL = r'(?:"(?:[^"]|"")*"|[^",]*)'
QUOTED_ROW = re.compile(f'{CELL}(?:,{CELL})*')

CsvRow = tuple[int, list[str]]  # the number of the first line, and the cells


class CsvProblem(Exception):
    """
    What is wrong in which line of a CSV file.
    """

    def __init__(self, line: int, problem: str):
        super().__init__(problem)
        self.line = line


def split_rows(lines: Iterable[str], delimiter: str = ',') -> Iterator[CsvRow]:
    """
    Yield line number and cells of each row that is not empty, by RFC 4180.

    :param lines: the lines of a file, without their line feeds.
    :raises CsvProblem: at a row that breaks the rules of quoting; where the next row
        begins is not known then.
    """
    ended = (line + '\n' for line in lines)
    reader = csv.reader(ended, delimiter=delimiter, strict=True)
    lines_read = 0
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield lines_read + 1, cells
            lines_read = reader.line_num
    except csv.Error as error:
        raise CsvProblem(lines_read + 1, f'not a CSV row: {error}') from None


def column_places(
    header: Sequence[str],
    needed: Collection[str],
    known: Collection[str] | None = None,
    line: int = 1,
) -> dict[str, int]:
    """
    Return the place of every column by its name, blanks around a name taken off.

    :param known: all columns that there may be; `None`: others are allowed.
    :raises CsvProblem: for a missing, repeated or unknown column.
    """
    names = [name.strip() for name in header]
    for name in names:
        if known is not None and name not in known:
            raise CsvProblem(line, f'unknown column {name!r}; {nearest(name, known)}')
        if names.count(name) > 1 and name in (known or needed):
            raise CsvProblem(line, f'column {name!r} is given twice')
    for name in needed:
        if name not in names:
            hint = nearest(name, filter(None, names))
            if len(names) == 1:  # of a file with semicolons or tabs
                hint = f'the header is {",".join(needed)}, with commas'
            raise CsvProblem(line, f'column {name!r} is missing; {hint}')
    return {name: index for index, name in enumerate(names) if name}


def width_problem(
    cells: Sequence[str], header: Sequence[str], delimiter: str = ','
) -> str | None:
    """
    Return what is wrong with the number of cells of a row.
    """
    if len(cells) == len(header):
        return None
    counts = f'{len(cells)} cells where the header has {len(header)}'
    what = {',': 'commas', ';': 'semicolons'}.get(delimiter, 'tabs')
    return f'{counts}; a cell with {what} is put in quotes'


def read_csv(
    path: str | Path,
    needed: Collection[str],
    known: Collection[str] | None = None,
    *,
    called: str = '',
) -> Iterator[tuple[int, dict[str, str]]]:
    """
    Yield line number and stripped cells by column, for each row below the header. One
    row is in memory.

    :param called: what a message says before the path of a file that cannot be read.
    :raises UserError: naming file, line and column, for the first mistake.
    """
    lines = (line for _, line in text_lines(path, empty=True, called=called))
    try:
        rows = split_rows(lines)
        line, header = next(rows, (1, []))
        places = column_places(header, needed, known, line)
        for line, cells in rows:
            if problem := width_problem(cells, header):
                raise CsvProblem(line, problem)
            yield line, {name: cells[index].strip() for name, index in places.items()}
    except CsvProblem as problem:
        raise UserError(f'{path}:{problem.line}: {problem}') from None


def split_loose_rows(lines: Sequence[str]) -> Iterator[CsvRow]:
    """
    Yield the rows of an openers file, header first. Quoted cells and
    EmpatheticDialogues' bare quotation marks are both read.

    Cells are put in quotes where they must be (RFC 4180), or, in EmpatheticDialogues'
    own files, split at every comma: a quotation mark is just a character there.

    :raises CsvProblem: for a row with another number of cells than the header.
    """
    lines = [line.removesuffix('\r') for line in lines]
    header = quoted_cells(lines[0]) or lines[0].split(',')
    yield 1, header
    official = set(header) >= EMPATHETIC
    widths = {len(header), len(header) + 1} if official else {len(header)}
    only_commas = official and any(quoted_cells(line) is None for line in lines)
    at = 1
    while at < len(lines):
        taken, cells = 1, lines[at].split(',')
        if not only_commas:
            taken, cells = _loose_row(lines, at, len(header))
        if lines[at].strip():
            if len(cells) not in widths:
                problem = width_problem(cells, header)
                hint = 'or a comma of an utterance is written _comma_'
                raise CsvProblem(at + 1, f'{problem}, {hint}')
            yield at + 1, cells
        at += taken


def _loose_row(lines: Sequence[str], at: int, width: int) -> tuple[int, list[str]]:
    """
    Return how many lines the row at line ``at`` takes, and its cells.

    A line that breaks the rules of quoting is split at its commas, if that gives the
    right number of cells and the next line is a row too; otherwise a quoted cell may go
    on in the next lines.
    """
    cells = quoted_cells(lines[at])
    if cells is not None:
        return 1, cells
    split = lines[at].split(',')
    after = lines[at + 1] if at + 1 < len(lines) else ''
    next_widths = (len(after.split(',')), len(quoted_cells(after) or ()))
    if len(split) == width and (not after.strip() or width in next_widths):
        return 1, split
    for taken in range(2, MAX_LINES):
        cells = quoted_cells('\n'.join(lines[at : at + taken]))
        if cells is not None and len(cells) == width:
            return taken, cells
    return 1, split


def quoted_cells(text: str) -> list[str] | None:
    """
    Return the cells of one row by RFC 4180, or `None` if it does not follow that.
    """
    if not QUOTED_ROW.fullmatch(text):
        return None
    try:
        return next(csv.reader([text], strict=True), ['']) or ['']
    except csv.Error:
        return None
