"""
A file of dialogues as it is read: its lines, JSON records, turns, and the problems.

A reader of a format yields `SourceDialogue`, which holds the turns or the problems.
Nothing is mended here; `apply_rules` makes dialogues of two speakers from them.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from parlai_ext.core import (
    JsonObject,
    UserError,
    frozen,
    half_character,
    parse_json,
    parse_own_json,
)
from parlai_ext.files import is_utf8, open_zip, read_member, read_utf8

NOT_UTF8 = 'not UTF-8 text'
ZIPPED_LOG = '.eval'  # how the zips of inspect_ai end
LOG_START = re.compile(r'"eval":\s*{')  # in the beginning of its logs as JSON
RECORDS_TO_TRY = 20  # from which the format of a file is told
IDS = ('dialogue_id', 'conversation_id', 'id')  # keys of a dialogue's id
MEDIA = 'media or deleted'  # messages of a chat without a text of somebody


class BadRecord(Exception):
    """
    What is wrong with a record: the key, and what would be right.
    """

    def __init__(self, problem: str, line: int = 1):
        super().__init__(problem)
        self.line = line


@frozen(slots=True)
class SourceTurn:
    """
    One turn and the line it is in, if that is not the line of the dialogue; ``given``
    when no system produced it. `references` are good utterances by people in its place.
    """

    speaker: str
    text: str
    line: int | None = None
    given: bool = False
    references: tuple[str, ...] = ()


@frozen
class Unread:
    """
    What a dialogue's record holds beside its turns.

    :param messages: how many messages are no turns, by role, such as ``system``, or
        `MEDIA`.
    :param inside: how many of these come after the first turn.
    :param keys: how many turns have a key that is not read, by key.
    """

    messages: Counter[str] = field(default_factory=Counter)
    inside: int = 0
    keys: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Unread) -> Unread:
        return Unread(
            self.messages + other.messages,
            self.inside + other.inside,
            self.keys + other.keys,
        )


@frozen
class SourceDialogue:
    """
    One dialogue of a file, with any number of speakers.

    :param id: the id that the file gives it, if any.
    :param humans: speakers that the file marks as people.
    :param place: where in the line it is, for lines that hold several dialogues.
    :param num_systems: how many systems the file says that talk: one with itself, or
        two, though one name may stand for both.
    :param sides: the two systems in the order in which the file numbers them.
    :param unread: what its record holds beside the turns.
    :param problems: why it cannot be used, each with its place; it is then left out or
        refused.
    :param num_joined: how many turns were joined with the one before.
    """

    turns: Sequence[SourceTurn] = ()
    id: str | None = None
    humans: frozenset[str] = frozenset()
    file: str = ''
    line: int = 1
    place: str = ''
    num_systems: int | None = None
    problems: Sequence[str] = ()
    sides: tuple[str, ...] = ()
    unread: Unread = field(default_factory=Unread)
    num_joined: int = 0

    @property
    def names(self) -> tuple[str, str]:
        """
        The speaker that begins, and the other one.
        """
        first, second = (turn.speaker for turn in self.turns[:2])
        return first, second


@frozen
class SourceFile:
    """
    A file's text, one entry a line. Bytes that are not UTF-8 are lone surrogates.

    :param columns: what the file calls a column or key of ours, where it has another
        name.
    """

    file: str
    stem: str
    lines: tuple[str, ...]
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_path(
        cls, path: Path, columns: Mapping[str, str] | None = None
    ) -> SourceFile:
        """
        Read a file. Only the line feed ends a line; a byte order mark and the carriage
        return before a line feed are dropped. A zipped log has a line for each sample.

        :raises UserError: for UTF-16 or a zip that cannot be read, and for what is no
            file.
        """
        if path.suffix == ZIPPED_LOG:
            lines = zipped_samples(path)
        else:
            text = read_utf8(path, 'surrogateescape')
            lines = (line.removesuffix('\r') for line in text.split('\n'))
        return cls(str(path), path.stem, tuple(lines), columns or {})

    def column(self, name: str) -> str:
        """
        Return what the file calls a column or key.
        """
        return self.columns.get(name, name)

    @cached_property
    def document(self) -> list[Any] | None:
        """
        The records of a file that is one JSON document: the items of a list, or a
        single object over several lines; `None` for any other file, such as one with
        an object or a list on each line.

        :raises BadRecord: for a list that cannot be read, and JSON that is refused.
        """
        first = self.first_line.lstrip()
        is_list = first.startswith('[')
        if not is_list and (
            not first.startswith('{') or not isinstance(_json_record(first), BadRecord)
        ):
            return None
        bad = [n for n, text in enumerate(self.lines, 1) if not is_utf8(text)]
        if bad and is_list:
            raise BadRecord(NOT_UTF8, bad[0])
        if bad:
            return None
        text = '\n'.join(self.lines)
        is_log = LOG_START.search(text[:2000])  # may hold NaN as a value of a metric
        try:
            value = (
                parse_json(text, any_number=True) if is_log else parse_own_json(text)
            )
        except json.JSONDecodeError as error:
            before = error.doc[: error.pos].strip()
            is_first_line = error.msg == 'Extra data' and '\n' not in before
            if is_list and not is_first_line:
                raise BadRecord(f'not JSON ({error.msg})', error.lineno) from None
            return None
        except ValueError as error:  # it is JSON, which is refused
            raise BadRecord(f'not JSON ({error})') from None
        return value if isinstance(value, list) else [value]

    @cached_property
    def metadata(self) -> Mapping[str, Any]:
        """
        The data of ``.metadata`` beside the file; nothing without such a file.

        :raises BadRecord: for what is no JSON object.
        """
        path = Path(self.file).with_suffix('.metadata')
        if not path.is_file():
            return {'opt': {}}
        try:
            about = parse_json(path.read_bytes())
        except ValueError:
            about = None
        if not isinstance(about, dict):
            raise BadRecord('its .metadata is no JSON object; mend or remove that file')
        opt = about.get('opt')
        return {**about, 'opt': opt if isinstance(opt, dict) else {}}

    @property
    def first_line(self) -> str:
        """
        The first line that is not empty.
        """
        return next((line for line in self.lines if line.strip()), '')

    def problem(self, line: int, text: str) -> str:
        """
        Return what is wrong in a line of this file, with its place.
        """
        return f'{self.file}:{line}: {text}'

    def unreadable(self, line: int, problem: str) -> SourceDialogue:
        """
        Return a dialogue without turns, which holds the problem of a line that cannot
        be read.
        """
        return SourceDialogue(
            file=self.file, line=line, problems=(self.problem(line, problem),)
        )


def zipped_samples(path: Path) -> Iterator[str]:
    """
    Yield each sample of a zipped log of inspect_ai as a log with this sample, without
    the events, which are most of it.
    """
    try:
        with open_zip(path) as log:
            # a name that comes twice: the last one counts
            names = dict.fromkeys(log.namelist())
            # a log that was cut off has no header
            header = 'header.json' if 'header.json' in names else '_journal/start.json'
            model = parse_json(read_member(log, header))['eval']['model']
            for name in names:
                if name.startswith('samples/'):
                    sample = parse_json(read_member(log, name), any_number=True)
                    kept = {key: sample[key] for key in ('id', 'epoch', 'messages')}
                    yield json.dumps({'eval': {'model': model}, 'samples': [kept]})
    except OSError as error:
        raise UserError(f'{path}: {error.strerror}') from None
    except (zipfile.BadZipFile, ValueError, LookupError, TypeError) as error:
        raise UserError(f'{path}, as a log of inspect_ai: {error}') from None


# its line, its place in a JSON document, and the object or what is wrong with it
NumberedRecord = tuple[int, str, Mapping[str, Any] | BadRecord]
# makes the dialogue of a record; its file and line are filled in
RecordReader = Callable[[SourceFile, Any], SourceDialogue]


def brief(value: Any) -> str:
    """
    Return a value as a short quotation on one line.
    """
    text = str(value)
    return ascii(text) if len(text) <= 40 else ascii(text[:40]) + '…'


def numbered_records(source: SourceFile) -> Iterator[NumberedRecord]:
    """
    Yield each JSON object of a file, or what is wrong with it, with its line and, in a
    JSON document, its place (``object 3: ``).
    """
    try:
        document = source.document
    except BadRecord as error:
        yield error.line, '', error
        return
    if document is None:
        for number, line in enumerate(source.lines, 1):
            if line.strip():
                yield number, '', _json_record(line)
        return
    for number, value in enumerate(document, 1):
        yield 1, f'object {number}: ', _record(value)


def _json_record(line: str) -> Mapping[str, Any] | BadRecord:
    """
    Return the JSON object of a line, or (not raised) the error that it is none.
    """
    if not is_utf8(line):
        return BadRecord(NOT_UTF8)
    try:
        value = parse_own_json(line)
    except ValueError as error:
        return BadRecord(f'not JSON ({" ".join(str(error).split())[:60]})')
    return _record(value)


def _record(value: Any) -> Mapping[str, Any] | BadRecord:
    """
    Return a JSON object, or (not raised) the error that it is none. A list of objects
    is a dialogue: it becomes an object with ``messages``.
    """
    if isinstance(value, list) and all(isinstance(one, dict) for one in value):
        return {'messages': value}
    if not isinstance(value, dict):
        return BadRecord(f'a JSON object is expected, not {brief(value)}')
    return value


def dialogues_of_records(
    source: SourceFile,
    read: RecordReader,
    records: Iterable[NumberedRecord] | None = None,
    unpack: Callable[[Any], list[Any]] | None = None,
) -> Iterator[SourceDialogue]:
    """
    Yield the dialogue that ``read(source, record)`` makes of each JSON line, or of each
    object of a JSON document.

    :param unpack: returns the records of dialogues that a record of the file holds.
    """
    for line, place, record in records or numbered_records(source):
        try:
            if isinstance(record, BadRecord):
                raise record
            for one in unpack(record) if unpack else [record]:
                dialogue = read(source, one)
                yield replace(dialogue, file=source.file, line=line, place=place)
        except BadRecord as error:
            yield source.unreadable(line, f'{place}{error}')


@frozen
class Format:
    """
    How a format looks, is recognised and is read. `self_chats`: ``NAME_1`` and
    ``NAME_2`` are one system in it. `columns`: its columns or keys may have other
    names.

    :param example: of one line; ``…`` stands for a value, or for more of the same.
    """

    example: str
    looks_like: Callable[[SourceFile], bool]
    read: Callable[[SourceFile], Iterator[SourceDialogue]]
    self_chats: bool = False
    columns: bool = False


def record_format(
    example: str,
    keys: Iterable[str],
    read: RecordReader,
    self_chats: bool = False,
    unpack: Callable[[Any], list[Any]] | None = None,
) -> Format:
    """
    Return a format of JSON records, which is recognised by the keys of the first one.

    :param read, unpack: as for `dialogues_of_records`.
    """
    wanted = set(keys)
    return Format(
        example,
        lambda source: wanted <= first_record(source).keys(),
        lambda source: dialogues_of_records(source, read, unpack=unpack),
        self_chats,
    )


def first_record(source: SourceFile) -> JsonObject:
    """
    Return the first readable record near the start of a file, or an empty one.
    """
    for _, _, record in islice(numbered_records(source), RECORDS_TO_TRY):
        if not isinstance(record, BadRecord):
            return record
    return {}


def text_value(record: Any, key: str, where: str = '') -> str:
    """
    Return a record's text under ``key``.

    :param where: the place of the record, for the message.
    :raises BadRecord: when there is none, or half a character is in it.
    """
    text: str = _value(record, key, str, where)
    if half_character(text):
        where = where and f'{where}: '
        raise BadRecord(f'{where}{key!r} holds half a character ({brief(text)})')
    return text


def list_value(record: Any, key: str) -> list[Any]:
    """
    Return a record's list under ``key``.

    :raises BadRecord: when there is none.
    """
    values: list[Any] = _value(record, key, list)
    return values


def _value(record: Any, key: str, kind: type, where: str = '') -> Any:
    """
    Return what a record has under ``key`` if it is of a kind, text or list.
    """
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, kind):
        expected = f'is a {"list" if kind is list else "text"}, not {brief(value)}'
        problem = 'is missing' if value is None else expected
        raise BadRecord(f'{where and f"{where}: "}{key!r} {problem}')
    return value


def id_value(record: JsonObject, *keys: str) -> str | None:
    """
    Return a record's own id of its dialogue, a text or a number, as text.

    :param keys: the first of them that the record has counts.
    :raises BadRecord: when it is something else.
    """
    key = next((key for key in keys if record.get(key) is not None), '')
    value = record.get(key)
    if isinstance(value, Mapping):  # MongoDB's way to write an id
        value = value.get('$oid')
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or value == '':
        raise BadRecord(f'{key!r} is a text or a number, not {brief(value)}')
    if half_character(str(value)):
        raise BadRecord(f'{key!r} holds half a character ({brief(value)})')
    return str(value)
