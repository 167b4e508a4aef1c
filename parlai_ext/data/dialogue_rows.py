"""
Dialogues as rows: one turn a row, in a CSV file or as JSON objects.

    dialogue_id  id of the dialogue (needed); its rows stand together, in order
    speaker      name of the speaker (needed)
    text         the utterance (needed; may hold commas and lines in a CSV file)
    turn         number of the turn in its dialogue, in steps of one (optional)
    given        true where no system produced it: an opener (optional)
    reference    what people said in its place, one a line or a list (optional)

Columns are parted by commas, semicolons or tabs, and may have other names
(`SourceFile.columns`). A JSON object may also be a whole dialogue: ``dialogue_id`` or
``id`` (optional) and ``turns``, a list of objects with ``speaker``, ``text`` and,
optionally, ``given`` and ``reference``. Other columns and keys are not read.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from parlai_ext.core import frozen, reference_texts
from parlai_ext.data.source_file import (
    IDS,
    NOT_UTF8,
    BadRecord,
    Format,
    NumberedRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    brief,
    dialogues_of_records,
    first_record,
    id_value,
    list_value,
    numbered_records,
    text_value,
)
from parlai_ext.files import (
    CsvProblem,
    column_places,
    is_utf8,
    split_rows,
    width_problem,
)

NEEDED = ('dialogue_id', 'speaker', 'text')
COLUMNS = (*NEEDED, 'turn', 'given', 'reference')
DELIMITERS = ',;\t'
HEADER = 2000  # characters of a first line that may be a header
TRUE = ('true', '1', 'yes')
FALSE = ('false', '0', 'no', '')


@frozen
class DialogueRow:
    """
    One row: a turn of a dialogue, or a problem.
    """

    line: int
    dialogue_id: str | None = None
    turn: SourceTurn | None = None
    number: int | None = None
    problem: str | None = None


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


def read_json_dialogues(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Return the dialogues of JSON objects: rows, or whole dialogues.
    """
    if 'turns' not in first_record(source):
        return _joined(source, numbered_records(source))
    return dialogues_of_records(source, _whole_dialogue)


def _whole_dialogue(source: SourceFile, record: Mapping[str, Any]) -> SourceDialogue:
    turns = tuple(
        _turn(source, turn, f'turn {turn_number}')
        for turn_number, turn in enumerate(list_value(record, 'turns'), 1)
    )
    return SourceDialogue(turns, id_value(record, source.column(IDS[0]), *IDS))


def _joined(
    source: SourceFile, records: Iterable[NumberedRecord]
) -> Iterator[SourceDialogue]:
    """
    Yield the dialogues that consecutive rows with one id make.

    A bad row spoils its dialogue; a bad row without an id spoils those around it.
    """
    groups: list[list[DialogueRow]] = []
    for row in (_row(source, *record) for record in records):
        if not groups or row.dialogue_id not in (None, groups[-1][0].dialogue_id):
            groups.append([])
        groups[-1].append(row)
    first_lines: dict[str, int] = {}
    spoiled: list[str] = []  # by rows without an id before this dialogue
    for group in groups:
        name, line = group[0].dialogue_id, group[0].line
        problems, spoiled = spoiled, []
        if name is None and len(groups) > 1:
            spoiled = [row.problem for row in group if row.problem]
            continue
        if name and (first := first_lines.setdefault(name, line)) != line:
            problem = f'dialogue_id {brief(name)} began in line {first} already'
            problem += '; rows of a dialogue stand together'
            problems.append(source.problem(line, problem))
        for before, row in pairwise([DialogueRow(line, None), *group]):
            problems += [row.problem] if row.problem else []
            spoiled = [*spoiled, *problems[-1:]] if row.dialogue_id is None else []
            if before.number is not None and row.number not in (
                None,
                before.number + 1,
            ):
                problem = f'turn {row.number} follows turn {before.number}'
                problems.append(source.problem(row.line, problem))
        turns = tuple(row.turn for row in group if row.turn)
        yield SourceDialogue(
            turns, name, file=source.file, line=line, problems=tuple(problems)
        )


def _csv_records(source: SourceFile) -> Iterator[NumberedRecord]:
    """
    Yield the rows below the header as records without empty cells; an empty text stays.
    What is wrong with the header is one problem.
    """
    delimiter = _delimiter(source)
    rows = split_rows(source.lines, delimiter)
    key, text = source.column('dialogue_id'), source.column('text')
    try:
        line, header = next(rows, (1, []))
        places = column_places(header, [*map(source.column, NEEDED)], line=line)
    except CsvProblem as problem:
        hint = '--columns dialogue_id=NAME,… for columns of other names'
        yield problem.line, '', BadRecord(f'{problem}; {hint}')
        return
    try:
        for line, cells in rows:
            wrong = None if all(map(is_utf8, cells)) else NOT_UTF8
            if wrong := wrong or width_problem(cells, header, delimiter):
                yield line, '', BadRecord(wrong)
                continue
            named = {name: cells[place] for name, place in places.items()}
            named[key] = named[key].strip()
            yield line, '', {k: v for k, v in named.items() if v != '' or k == text}
    except CsvProblem as problem:
        wrong = f'{problem}; the rest of the file cannot be read'
        yield problem.line, '', BadRecord(wrong)


def _row(
    source: SourceFile, line: int, place: str, record: Mapping[str, Any] | BadRecord
) -> DialogueRow:
    """
    Return the row of a record, or a row that holds the problem with it.
    """
    key, name = source.column('dialogue_id'), None
    try:
        if isinstance(record, BadRecord):
            raise record
        name = id_value(record, key)
        if name is None:
            raise BadRecord(f'{key!r} is missing')
        turn = _turn(source, record, place.rstrip(': ') or 'the row', line)
        number = record.get(source.column('turn'))
        if number is not None:
            digits = str(number).strip()
            if not digits.isdecimal():
                raise BadRecord(f"'turn' is a number, not {brief(digits)}")
            number = int(digits)
        return DialogueRow(line, name, turn, number)
    except BadRecord as error:
        problem = f'{place if name is None else ""}{error}'
        return DialogueRow(line, name, problem=source.problem(line, problem))


def _turn(
    source: SourceFile, record: Any, where: str, line: int | None = None
) -> SourceTurn:
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


JSON_LINES = Format(
    '{"dialogue_id": "1", "speaker": "NAME", "text": "Hi!"}',
    looks_like_json,
    read_json_dialogues,
    columns=True,
)
CSV = Format(
    'dialogue_id,speaker,text',
    looks_like_csv,
    lambda source: _joined(source, _csv_records(source)),
    columns=True,
)
