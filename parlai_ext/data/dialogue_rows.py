"""
Dialogues as rows: one turn a row, in a CSV file or as JSON objects.

    dialogue_id  id of the dialogue (needed); its rows stand together, in order
    speaker      name of the speaker (needed)
    text         the utterance (needed; may hold commas and lines in a CSV file)
    turn         number of the turn in its dialogue, in steps of one (optional)
    given        true where no system produced it: an opener (optional)
    reference    what people said in its place, one a line or a list (optional)

Columns are parted by commas, semicolons or tabs, and may have other names
(`SourceFile.columns`). A JSON object may also be a whole dialogue: ``dialogue_id``
(optional) and ``turns``, a list of objects with ``speaker``, ``text`` and, optionally,
``given`` and ``reference``. Other columns and keys are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parlai_ext.core.nouns import reference_texts
from parlai_ext.data.source_file import (
    NOT_UTF8,
    BadRecord,
    Problem,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    brief,
    dialogues_of_records,
    first_record,
    id_value,
    is_utf8,
    list_value,
    numbered_records,
    text_value,
)
from parlai_ext.files.csv_file import (
    CsvProblem,
    column_places,
    split_rows,
    width_problem,
)

NEEDED = ('dialogue_id', 'speaker', 'text')
COLUMNS = (*NEEDED, 'turn', 'given', 'reference')
DELIMITERS = ',;\t'
HEADER = 2000  # characters of a first line that may be a header
TRUE = ('true', '1', 'yes')
FALSE = ('false', '0', 'no', '')


@dataclass(frozen=True)
class DialogueRow:
    """
    One row: a turn of a dialogue, or a problem.
    """

    line: int
    dialogue_id: str | None = None
    turn: SourceTurn | None = None
    number: int | None = None
    problem: Problem | None = None


@dataclass
class UnfinishedDialogue:
    """
    The dialogue whose rows are being read.
    """

    id: str
    line: int
    turns: list[SourceTurn] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    number: int | None = None

    def close(self, source: SourceFile, more: list[Problem]) -> SourceDialogue:
        """
        Return the dialogue, with all its problems.

        :param more: problems of the rows without an id between its last row and the
            next dialogue; they may be turns of it.
        """
        problems = tuple(self.problems + more)
        return SourceDialogue(
            source.file, self.line, tuple(self.turns), self.id, problems=problems
        )


def looks_like_csv(source: SourceFile) -> bool:
    """
    Return True if the first line names the columns.
    """
    wanted = {source.column('speaker'), source.column('text')}
    return wanted <= _header_cells(source, _delimiter(source))


def _header_cells(source: SourceFile, delimiter: str) -> set[str]:
    first = source.lines[0] if source.lines else ''
    header = first[:HEADER].replace('"', '').split(delimiter)
    return {cell.strip() for cell in header}


def _delimiter(source: SourceFile) -> str:
    """
    Return what parts the columns of a CSV file: that by which the first line has most
    of the needed ones, or else most columns.
    """
    needed = set(map(source.column, NEEDED))
    cells = {delimiter: _header_cells(source, delimiter) for delimiter in DELIMITERS}
    return max(cells, key=lambda d: (len(needed & cells[d]), len(cells[d])))


def looks_like_json(source: SourceFile) -> bool:
    """
    Return True if the first record is a turn or a dialogue.
    """
    record = first_record(source)
    wanted = {source.column('speaker'), source.column('text')}
    return 'turns' in record or wanted <= set(record)


def read_csv(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the dialogues of a CSV file with a header.
    """
    try:
        yield from _joined(source, _csv_rows(source))
    except BadRecord as error:
        yield source.unreadable(error.line, str(error))


def read_json(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the dialogues of JSON objects: rows, or whole dialogues.
    """
    if 'turns' not in first_record(source):
        yield from _joined(source, _json_rows(source))
        return

    def dialogue(number: int, record: Mapping[str, Any]) -> SourceDialogue:
        turns = tuple(
            _turn(source, turn, number, f'turn {turn_number}')
            for turn_number, turn in enumerate(list_value(record, 'turns'), 1)
        )
        name = id_value(record, source.column('dialogue_id'))
        return SourceDialogue(source.file, number, turns, name)

    yield from dialogues_of_records(source, dialogue)


def _joined(
    source: SourceFile, rows: Iterable[DialogueRow]
) -> Iterator[SourceDialogue]:
    """
    Yield the dialogues that consecutive rows with one id make.

    A bad row spoils its dialogue; a bad row without an id spoils those around it.
    """
    now: UnfinishedDialogue | None = None
    waiting: list[Problem] = []
    first_lines: dict[str, int] = {}
    for row in rows:
        if row.dialogue_id is None:
            waiting += [row.problem] if row.problem else []
            continue
        if now is None or row.dialogue_id != now.id:
            if now is not None:
                yield now.close(source, waiting)
            now = UnfinishedDialogue(row.dialogue_id, row.line)
            if before := first_lines.get(now.id):
                problem = f'dialogue_id {brief(now.id)} began in line {before} already'
                problem += '; rows of a dialogue stand together'
                now.problems.append(source.problem(row.line, problem))
            first_lines.setdefault(now.id, row.line)
        now.problems += [*waiting, *_row_problems(source, now, row)]
        waiting = []
        now.turns += [row.turn] if row.turn else []
    if now is not None:
        yield now.close(source, waiting)
    elif waiting:
        yield SourceDialogue(source.file, waiting[0].line, problems=tuple(waiting))


def _row_problems(
    source: SourceFile, now: UnfinishedDialogue, row: DialogueRow
) -> Iterator[Problem]:
    """
    Yield what is wrong with a row and with its number.
    """
    if row.problem:
        yield row.problem
    before, now.number = now.number, row.number
    if None not in (before, row.number) and row.number != (before or 0) + 1:
        yield source.problem(row.line, f'turn {row.number} follows turn {before}')


def _csv_rows(source: SourceFile) -> Iterator[DialogueRow]:
    """
    Yield the rows below the header.

    :raises BadRecord: for a wrong header.
    """
    delimiter = _delimiter(source)
    rows = split_rows(source.lines, delimiter)
    try:
        line, header = next(rows, (1, []))
        places = column_places(header, [*map(source.column, NEEDED)], line=line)
    except CsvProblem as problem:
        hint = '--columns dialogue_id=NAME,… for columns of other names'
        raise BadRecord(f'{problem}; {hint}', problem.line) from None
    try:
        for line, cells in rows:
            wrong = None if all(map(is_utf8, cells)) else NOT_UTF8
            if wrong := wrong or width_problem(cells, header, delimiter):
                yield DialogueRow(line, problem=source.problem(line, wrong))
            else:
                named = {name: cells[place] for name, place in places.items()}
                yield _csv_row(source, line, named)
    except CsvProblem as problem:
        text = f'{problem}; the rest of the file cannot be read'
        yield DialogueRow(problem.line, problem=source.problem(problem.line, text))


def _csv_row(source: SourceFile, line: int, record: Mapping[str, str]) -> DialogueRow:
    """
    Return the row of a CSV line, or a row that holds the problem with it.
    """
    key, text = source.column('dialogue_id'), source.column('text')
    name = record[key].strip()
    if not name:
        return DialogueRow(
            line, problem=source.problem(line, f'column {key}: is empty')
        )
    given = {k: v for k, v in record.items() if v != '' or k == text}
    return _row(source, line, name, given)


def _json_rows(source: SourceFile) -> Iterator[DialogueRow]:
    """
    Yield a row for each JSON object; what cannot be one yields its problem.
    """
    key = source.column('dialogue_id')
    for number, place, record in numbered_records(source):
        try:
            if isinstance(record, BadRecord):
                raise record
            name = id_value(record, key)
            if name is None:
                raise BadRecord(f'{key!r} is missing')
        except BadRecord as error:
            problem = source.problem(number, f'{place}{error}')
            yield DialogueRow(number, problem=problem)
        else:
            yield _row(source, number, name, record, place.rstrip(': ') or 'the row')


def _row(
    source: SourceFile,
    line: int,
    name: str,
    record: Mapping[str, Any],
    where: str = 'the row',
) -> DialogueRow:
    """
    Return the row of a record, or a row that holds the problem with it.
    """
    try:
        turn = _turn(source, record, line, where)
        number = _turn_number(record.get(source.column('turn')))
        return DialogueRow(line, name, turn, number)
    except BadRecord as error:
        return DialogueRow(line, name, problem=source.problem(line, str(error)))


def _turn(source: SourceFile, record: Any, line: int, where: str) -> SourceTurn:
    speaker = text_value(record, source.column('speaker'), where).strip()
    text = text_value(record, source.column('text'), where)
    key = source.column('given')
    given = str(record.get(key) or '').strip().casefold()
    if given not in TRUE + FALSE:
        raise BadRecord(f'{where}: {key!r} is true or false, not {brief(given)}')
    key = source.column('reference')
    try:
        references = reference_texts(record.get(key))
    except ValueError as error:
        raise BadRecord(f'{where}: {key!r}: {error}') from None
    return SourceTurn(speaker, text, line, given in TRUE, references)


def _turn_number(value: Any) -> int | None:
    """
    Return the number in the column or key ``turn``, `None` if it is not given.

    :raises BadRecord: for anything else than decimal digits.
    """
    if value is None:
        return None
    text = str(value).strip()
    if not text.isdecimal():
        raise BadRecord(f"'turn' is a number, not {brief(text)}")
    return int(text)
