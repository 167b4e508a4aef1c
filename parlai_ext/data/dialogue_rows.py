"""
Dialogues as rows: one turn a row, in a CSV file or as JSON lines.

    dialogue_id  which dialogue (needed); its rows stand together, in order
    speaker      who says it (needed)
    text         what (needed; may hold commas and lines in a CSV file)
    turn         the turn's number in its dialogue, in steps of one (optional)
    given        true where no system said it: an opener (optional)

A JSON line may also be a whole dialogue: ``dialogue_id`` (optional) and ``turns``, a
list of objects with ``speaker``, ``text`` and, optionally, ``given``. Other columns and
keys are not read.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parlai_ext.data.json_lines import (
    Misshapen,
    first_record,
    id_of,
    list_of,
    records,
    text_of,
)
from parlai_ext.data.source_dialogue import (
    NOT_UTF8,
    Problem,
    Source,
    Talk,
    Turn,
    brief,
    is_utf8,
)

NEEDED = ('dialogue_id', 'speaker', 'text')
HEADER = 2000  # characters of a first line that may be a header
TRUE = ('true', '1', 'yes')
FALSE = ('false', '0', 'no', '')


@dataclass(frozen=True)
class Row:
    """
    One row: a turn of a dialogue, or what is wrong with it.
    """

    line: int
    dialogue_id: str | None = None
    turn: Turn | None = None
    number: int | None = None
    problem: Problem | None = None


@dataclass
class Open:
    """
    The dialogue whose rows are being read.
    """

    id: str
    line: int
    turns: list[Turn] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    number: int | None = None


def looks_like_csv(source: Source) -> bool:
    """
    Tell whether the first line names the columns.
    """
    first = source.lines[0] if source.lines else ''
    header = first[:HEADER].replace('"', '').split(',')
    return {'speaker', 'text'} <= {cell.strip() for cell in header}


def looks_like_json(source: Source) -> bool:
    """
    Tell whether the first record is a turn or a dialogue.
    """
    record = first_record(source)
    return 'turns' in record or {'speaker', 'text'} <= set(record)


def read_csv(source: Source) -> Iterator[Talk]:
    """
    Yield the dialogues of a CSV file with a header.
    """
    try:
        yield from talks(source, _csv_rows(source))
    except Misshapen as error:
        yield source.not_talk(error.line, str(error))


def read_json(source: Source) -> Iterator[Talk]:
    """
    Yield the dialogues of JSON lines: rows, or whole dialogues.
    """
    if 'turns' not in first_record(source):
        yield from talks(source, _json_rows(source))
        return
    for number, record in records(source):
        try:
            yield _whole(source, number, record)
        except Misshapen as error:
            yield source.not_talk(number, str(error))


def talks(source: Source, rows: Iterable[Row]) -> Iterator[Talk]:
    """
    Join rows of one dialogue.

    A bad row spoils its dialogue; one that does not even say which, those around it.
    """
    now: Open | None = None
    waiting: list[Problem] = []
    seen: dict[str, int] = {}
    for row in rows:
        if row.dialogue_id is None:
            waiting += [row.problem] if row.problem else []
            continue
        if now is None or row.dialogue_id != now.id:
            if now is not None:
                yield _closed(source, now, waiting)
            now = Open(row.dialogue_id, row.line)
            if before := seen.get(now.id):
                what = f'dialogue_id {brief(now.id)} began in line {before} already'
                now.problems.append(
                    source.bad(row.line, f'{what}; rows of a dialogue stand together')
                )
            seen.setdefault(now.id, row.line)
        now.problems += [*waiting, *_counted(source, now, row)]
        waiting = []
        now.turns += [row.turn] if row.turn else []
    if now is not None:
        yield _closed(source, now, waiting)
    elif waiting:
        yield Talk(source.file, waiting[0].line, problems=tuple(waiting))


def _closed(source: Source, now: Open, after: list[Problem]) -> Talk:
    problems = tuple(now.problems + after)
    return Talk(source.file, now.line, tuple(now.turns), now.id, problems=problems)


def _counted(source: Source, now: Open, row: Row) -> Iterator[Problem]:
    """
    Yield what is wrong with a row and with its number.
    """
    if row.problem:
        yield row.problem
    before, now.number = now.number, row.number
    if None not in (before, row.number) and row.number != (before or 0) + 1:
        yield source.bad(row.line, f'turn {row.number} follows turn {before}')


def _csv_rows(source: Source) -> Iterator[Row]:
    """
    Yield the rows below the header; only the line feed ends a line.
    """
    reader = csv.reader((line + '\n' for line in source.lines), strict=True)
    last = 0
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(header)
        last = reader.line_num
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield _csv_row(source, last + 1, header, cells)
            last = reader.line_num
    except csv.Error as error:  # where the next row begins, nobody knows
        what = f'not a CSV row: {error}; the rest of the file cannot be read'
        yield Row(last + 1, problem=source.bad(last + 1, what))


def _check_header(header: list[str]) -> None:
    for name in NEEDED:
        if header.count(name) != 1:
            found = 'is given twice' if name in header else 'is missing'
            raise Misshapen(
                f'column {name!r} {found}: the header is {brief(",".join(header))}; '
                f'it needs {",".join(NEEDED)}, with commas, and may have turn,given'
            )


def _csv_row(source: Source, line: int, header: list[str], cells: list[str]) -> Row:
    record = dict(zip(header, cells, strict=False))
    name = record.get('dialogue_id', '').strip() or None
    if not all(map(is_utf8, cells)):
        return Row(line, problem=source.bad(line, NOT_UTF8))
    if len(cells) != len(header):
        what = f'{len(cells)} cells where the header has {len(header)}'
        return Row(line, problem=source.bad(line, what))
    if name is None:
        return Row(line, problem=source.bad(line, 'column dialogue_id: is empty'))
    return _row(
        source,
        line,
        name,
        {k: v for k, v in record.items() if k and v != ''} | {'text': record['text']},
    )


def _json_rows(source: Source) -> Iterator[Row]:
    for number, record in records(source):
        try:
            if isinstance(record, Misshapen):
                raise record
            name = id_of(record)
            if name is None:
                raise Misshapen("'dialogue_id' is missing")
        except Misshapen as error:
            yield Row(number, problem=source.bad(number, str(error)))
        else:
            yield _row(source, number, name, record)


def _row(source: Source, line: int, name: str, record: Mapping[str, Any]) -> Row:
    try:
        turn = _turn(record, line, 'the row')
        return Row(line, name, turn, _number(record.get('turn')))
    except Misshapen as error:
        return Row(line, name, problem=source.bad(line, str(error)))


def _turn(record: Any, line: int, where: str) -> Turn:
    speaker = text_of(record, 'speaker', where).strip()
    text = text_of(record, 'text', where)
    given = str(record.get('given') or '').strip().casefold()
    if given not in TRUE + FALSE:
        raise Misshapen(f"{where}: 'given' is true or false, not {brief(given)}")
    return Turn(speaker, text, line, given in TRUE)


def _number(value: Any) -> int | None:
    if value is None:
        return None
    text = str(value).strip()
    if not text.isdecimal():
        raise Misshapen(f"'turn' is a number, not {brief(text)}")
    return int(text)


def _whole(source: Source, number: int, record: Mapping[str, Any] | Misshapen) -> Talk:
    if isinstance(record, Misshapen):
        raise record
    turns = tuple(
        _turn(one, number, f'turn {place}')
        for place, one in enumerate(list_of(record, 'turns'), 1)
    )
    return Talk(source.file, number, turns, id_of(record))
