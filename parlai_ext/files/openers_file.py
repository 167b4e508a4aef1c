"""
Openers from a CSV file: the first two utterances of each dialogue.

The columns `conv_id`, `utterance_idx` (from 1) and `utterance` are needed, more are
allowed; `_comma_` and `_pipe_` stand for `,` and `|`. Two ways of writing are in use
and both are read: cells in quotes when they must be (RFC 4180), and
EmpatheticDialogues' own files, which are split at every comma and in which a quotation
mark is just a character.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.files.text_file import read_utf8

logger = logging.getLogger(__name__)

COLUMNS = ('conv_id', 'utterance_idx', 'utterance')
# columns that only EmpatheticDialogues' own files have; their rows may have one more
OFFICIAL = {'speaker_idx', 'selfeval'}
GIVEN = 2  # utterances of an opener
MAX_LINES = 50  # of one quoted cell
CELL = re.compile(r'"((?:[^"]|"")*)"|([^",]*)')


@dataclass(frozen=True)
class OpenersFile:
    """
    The openers of a file by dialogue, and the dialogues too short to give one.
    """

    openers: dict[str, tuple[str, ...]]
    too_short: tuple[str, ...]


def read_openers_file(path: str | Path) -> OpenersFile:
    """
    Return the first two utterances of each dialogue, in the order of the file.

    :raises UserError: names file, line and column of the first row that is wrong.
    """
    text = read_utf8(path, 'openers file ')
    rows = _rows(text.split('\n'), str(path))
    _, header = next(rows, (1, []))
    place = _columns(header, str(path))
    dialogues: dict[str, list[str]] = {}
    for line, cells in rows:
        conv_id = cells[place['conv_id']].strip()
        if not conv_id:
            raise _wrong(path, line, 'conv_id', 'is empty')
        said = dialogues.setdefault(conv_id, [])
        _check_index(path, line, cells[place['utterance_idx']], conv_id, len(said))
        utterance = plain(cells[place['utterance']])
        if not utterance and len(said) < GIVEN:
            raise _wrong(path, line, 'utterance', 'is empty')
        said.append(utterance)
    if not dialogues:
        raise UserError(f'{path}: no dialogues: the file has a header and no rows')
    return OpenersFile(
        {k: tuple(v[:GIVEN]) for k, v in dialogues.items() if len(v) >= GIVEN},
        tuple(k for k, v in dialogues.items() if len(v) < GIVEN),
    )


def plain(cell: str) -> str:
    """
    Return an utterance as it was said: commas back, on one line, stripped.
    """
    text = cell.replace('_comma_', ',').replace('_pipe_', '|')
    return re.sub(r'[\r\n]+', ' ', text).strip()


def _columns(header: Sequence[str], source: str) -> dict[str, int]:
    """
    Return where each needed column is.
    """
    names = [name.strip() for name in header]
    for column in COLUMNS:
        if names.count(column) != 1:
            what = 'given twice' if column in names else 'missing'
            hint = '' if column in names else f'; {nearest(column, names)}'
            raise UserError(f'{source}:1: column {column!r} is {what}{hint}')
    return {column: names.index(column) for column in COLUMNS}


def _check_index(
    path: str | Path, line: int, cell: str, conv_id: str, before: int
) -> None:
    """
    Refuse an `utterance_idx` that does not count on within its dialogue.
    """
    if not cell.strip().isdecimal():
        raise _wrong(path, line, 'utterance_idx', f'a whole number, not {cell!r}')
    if int(cell) != before + 1:
        problem = f'{before + 1} comes next in dialogue {conv_id}, not {int(cell)}'
        raise _wrong(path, line, 'utterance_idx', problem)


def _wrong(path: str | Path, line: int, column: str, problem: str) -> UserError:
    return UserError(f'{path}:{line}: column {column}: {problem}')


def _rows(lines: Sequence[str], source: str) -> Iterator[tuple[int, list[str]]]:
    """
    Yield line number and cells of each row, the header first.
    """
    lines = [line.removesuffix('\r') for line in lines]
    header = quoted_cells(lines[0]) or lines[0].split(',')
    yield 1, header
    official = set(header) >= OFFICIAL
    width = {len(header), len(header) + 1} if official else {len(header)}
    raw = official and any(quoted_cells(line) is None for line in lines)
    at = 1
    while at < len(lines):
        taken, cells = 1, lines[at].split(',')
        if not raw:
            taken, cells = _row(lines, at, len(header))
        if lines[at].strip():
            if len(cells) not in width:
                raise UserError(
                    f'{source}:{at + 1}: {len(cells)} cells where the header has '
                    f'{len(header)}; a comma that was said is written _comma_, or the '
                    'cell is put in quotes'
                )
            yield at + 1, cells
        at += taken


def _row(lines: Sequence[str], at: int, width: int) -> tuple[int, list[str]]:
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
    if len(split) == width and (not after.strip() or _is_row(after, width)):
        return 1, split
    for taken in range(2, MAX_LINES):
        cells = quoted_cells('\n'.join(lines[at : at + taken]))
        if cells is not None and len(cells) == width:
            return taken, cells
    return 1, split


def _is_row(line: str, width: int) -> bool:
    return width in (len(line.split(',')), len(quoted_cells(line) or ()))


def quoted_cells(line: str) -> list[str] | None:
    """
    Return the cells of a line by RFC 4180, or `None` if it does not follow that.
    """
    cells: list[str] = []
    at = 0
    while found := CELL.match(line, at):
        inside, bare = found.groups()
        cells.append(bare if inside is None else inside.replace('""', '"'))
        at = found.end()
        if at == len(line):
            return cells
        if line[at] != ',':
            return None
        at += 1
    return None


def report_too_short(source: str | Path, found: OpenersFile) -> None:
    """
    Log how many dialogues give no opener, and which.
    """
    if found.too_short:
        names = ', '.join(found.too_short[:10])
        more = ', …' if len(found.too_short) > 10 else ''
        logger.warning(
            '%s: %d dialogues have fewer than two utterances and give no opener: %s%s',
            Path(source).name,
            len(found.too_short),
            names,
            more,
        )
