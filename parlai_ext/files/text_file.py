"""
A user's text file, whole or line by line: UTF-8, or UTF-16 or UTF-32 where it says so.

Only the line feed ends a line. Of a file that is read by lines one line is in memory.
JSON, JSON lines and CSV are such files.
"""

import codecs
import csv
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from parlai_ext.core import JsonObject, UserError, nearest, parse_json

# byte order marks; the one of UTF-32 may begin with that of UTF-16, and comes first
MARKS = {
    (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE): 'utf-32',
    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE): 'utf-16',
}
UTF8 = 'utf-8-sig'
LARGEST_TEXT = 4 * 2**30  # bytes of a text file that is read whole
LONGEST_LINE = 10**8  # characters
# what stands for bytes that are not UTF-8 in a text decoded with ``surrogateescape``
NOT_DECODED = re.compile('[\udc80-\udcff]')


def is_special(path: Path) -> bool:
    """
    True for what is there and neither a file nor a folder: a pipe or a device, whose
    text may never come, or never end.
    """
    return path.exists() and not (path.is_file() or path.is_dir())


def check_text_file(path: str | Path) -> int:
    """
    Return the size of a file in bytes, if it is a file (or a folder, which no reader
    opens).

    :raises OSError: when there is none.
    :raises UserError: for a pipe, a device or a socket.
    """
    if is_special(Path(path)):
        raise UserError(f'{path}: a pipe or a device; a file is expected')
    return os.path.getsize(path)


def encoding_of(start: bytes, where: str) -> str:
    """
    Return the encoding of a text that begins with these bytes: that of its byte order
    mark, or UTF-8.

    :param where: what messages call the text.
    :raises UserError: for UTF-16 that has no byte order mark, and a zip file.
    """
    if start.startswith(b'PK\3\4'):
        raise UserError(
            f'{where}: a zip file or a spreadsheet; unpack it, or save it as CSV'
        )
    for marks, name in MARKS.items():
        if start.startswith(marks):
            return name
    if (start[0:4:2] == b'\0\0') != (start[1:4:2] == b'\0\0'):  # as ASCII has it
        raise UserError(
            f'{where}: this seems to be UTF-16 without a byte order mark; save it as '
            'UTF-8'
        )
    return UTF8


def decoded_text(data: bytes, where: str, errors: str = 'strict') -> str:
    """
    Return the text of these bytes in UTF-8, UTF-16 or UTF-32, a byte order mark left
    out.

    :param where: what messages call the text.
    :param errors: what becomes of bytes that are not UTF-8, as for `bytes.decode`.
    :raises UserError: for damaged text, with the first line that is not UTF-8.
    """
    encoding = encoding_of(data, where)
    try:
        return data.decode(encoding, errors if encoding == UTF8 else 'strict')
    except UnicodeDecodeError as e:
        if encoding == UTF8:
            line = e.object[: e.start].count(b'\n') + 1
            raise UserError(f'{where}:{line}: not UTF-8 text') from None
        raise UserError(f'{where}: damaged {encoding.upper()} ({e.reason})') from None


def read_utf8(path: str | Path, errors: str = 'strict') -> str:
    """
    Return the text of a file, as `decoded_text` does.

    :raises UserError: also for what is no file, or larger than `LARGEST_TEXT`.
    """
    try:
        if check_text_file(path) > LARGEST_TEXT:
            raise UserError(f'{path}: more than {LARGEST_TEXT:,} bytes')
        data = Path(path).read_bytes()
    except OSError as e:
        raise UserError(f'{path}: {e.strerror}') from None
    return decoded_text(data, str(path), errors)


def is_utf8(text: str) -> bool:
    """
    True if a text decoded with ``surrogateescape`` was UTF-8.
    """
    return text.isascii() or not NOT_DECODED.search(text)


def text_lines(
    path: str | Path,
    encoding: str | None = None,
    *,
    empty: bool = False,
) -> Iterator[tuple[int, str]]:
    """
    Yield number and text of each line, without the carriage return that may end it.

    :param encoding: `None`: UTF-8, or what the byte order mark says.
    :param empty: empty lines count.
    :raises UserError: names the file, and the line that is not UTF-8 or is too long.
    """
    number = 0
    try:
        check_text_file(path)
        if encoding is None:
            with open(path, 'rb') as start:
                encoding = encoding_of(start.read(4), str(path))
        with open(
            path, encoding=encoding, errors='surrogateescape', newline='\n'
        ) as file:
            lines = iter(lambda: file.readline(LONGEST_LINE + 1), '')
            for number, line in enumerate(lines, 1):
                if len(line) > LONGEST_LINE:
                    problem = f'a line of more than {LONGEST_LINE:,} characters'
                    raise UserError(f'{path}:{number}: {problem}')
                if not is_utf8(line):
                    raise UserError(f'{path}:{number}: not UTF-8 text')
                text = line.removesuffix('\n').removesuffix('\r')
                if empty or text.strip():
                    yield number, text
    except OSError as error:
        raise UserError(f'{path}: {error.strerror}') from None
    except UnicodeError as error:
        raise UserError(
            f'{path}: damaged {encoding} text after line {number} ({error})'
        ) from None


# --- JSON -----------------------------------------------------------------------------
# A user's file of JSON, or of JSON lines: its values, or one clear error.


def read_json(path: str | Path, kind: type) -> Any:
    """
    Return the JSON value in a file.

    :param kind: what it must be: ``list`` or ``dict``.
    :raises UserError: names the file that cannot be read, or has something else.
    """
    try:
        value = parse_json(read_utf8(path))
    except ValueError as error:
        raise UserError(f'{path}: not JSON: {error}') from None
    if not isinstance(value, kind):
        expected = 'a JSON list' if kind is list else 'a JSON object'
        raise UserError(f'{path}: {expected} is expected')
    return value


def json_lines(path: str | Path) -> Iterator[tuple[int, JsonObject]]:
    """
    Yield the number and the object of each line that is not empty.

    :raises UserError: names the file, and the line that holds something else.
    """
    for number, line in text_lines(path):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise UserError(f'{path}:{number}: not JSON: {error}') from None
        if not isinstance(row, dict):
            raise UserError(f'{path}:{number}: a JSON object is expected')
        yield number, row


def is_texts(value: Any) -> bool:
    """
    True for a list of texts.
    """
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


# --- CSV ------------------------------------------------------------------------------
# CSV files as they are read: rows with their line numbers, headers checked.
#
# Only the line feed ends a line, so that U+2028 and the like stay part of a cell. A row
# has the number of its first line, since a quoted cell may hold line breaks.

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
    if not names:
        raise CsvProblem(line, 'the file is empty')
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
) -> Iterator[tuple[int, dict[str, str]]]:
    """
    Yield line number and stripped cells by column, for each row below the header. One
    row is in memory.

    :raises UserError: naming file, line and column, for the first mistake.
    """
    lines = (line for _, line in text_lines(path, empty=True))
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
