"""
Files of dialogues as they are read: their lines, JSON records, turns and problems, and
all formats: logs of chats, of ParlAI and of studies, and rows.

A reader of a format yields `SourceDialogue`, which holds the turns or the problems.
Nothing is mended here; `apply_rules` makes dialogues of two speakers from them.

Of the formats first come lists of messages: OpenAI's ``messages``, ShareGPT's
``conversations``, and such lists in exports of Telegram, LangSmith, Langfuse,
inspect_ai and MT-Bench.

    {"messages": [{"role": "user", "content": "Hi!"},
                  {"role": "assistant", "content": "Hello."}], "model": "some-model"}
    {"id": "7", "conversations": [{"from": "human", "value": "Hi!"},
                                  {"from": "gpt", "value": "Hello."}]}

as JSON lines or in one JSON list; a dialogue may also be the list of messages alone.
Instructions (``system``) are no turns; they and keys of turns that are not read, such
as ``name``, are counted. Users are people. A system is called by the
record's ``system`` where that is one word, by its ``model``, or else by its role.

LangSmith holds messages as the application gave them, or as LangChain writes its own:
``{"type": "human", "content": "Hi!"}``, or these keys under ``data`` or ``kwargs``.

Logs of inspect_ai are its `EvalLog` as JSON (``inspect log dump``), MT-Bench's are its
judgements of people, with both conversations.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from itertools import chain, groupby, islice, pairwise
from pathlib import Path
from typing import Any

from parlai_ext.core import (
    DATA_ERRORS,
    Dialogue,
    JsonObject,
    UserError,
    Utterance,
    frozen,
    half_character,
    parse_json,
    parse_own_json,
    reference_texts,
)
from parlai_ext.files import (
    CsvProblem,
    column_places,
    is_utf8,
    open_zip,
    read_member,
    read_utf8,
    split_rows,
    width_problem,
)

NOT_UTF8 = 'not UTF-8 text'
ZIPPED_LOG = '.eval'  # how the zips of inspect_ai end
LOG_START = re.compile(r'"eval":\s*{')  # in the beginning of its logs as JSON
RECORDS_TO_TRY = 20  # from which the format of a file is told
IDS = ('dialogue_id', 'conversation_id', 'id')  # keys of a dialogue's id
MEDIA = 'media or deleted'  # messages of a chat without a text of somebody
Record = Mapping[str, Any]


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
    def metadata(self) -> Record:
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
NumberedRecord = tuple[int, str, Record | BadRecord]
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


def _json_record(line: str) -> Record | BadRecord:
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


def _record(value: Any) -> Record | BadRecord:
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


# --- lists of messages ----------------------------------------------------------------

PEOPLE = frozenset({'user', 'human'})
INSTRUCTIONS = ('system', 'developer')
# LangChain's words for roles; what its objects hold beside a text is about the call
LANGCHAIN_ROLES = {
    'human': 'user',
    'ai': 'assistant',
    'system': 'system',
    'tool': 'tool',
    'function': 'tool',
}
LANGCHAIN_KEPT = ('content', 'name', 'tool_calls')
TEXT_PARTS = ('text', 'input_text', 'output_text')
THOUGHTS = ('reasoning', 'thinking')  # parts of a message that nobody was told
LISTS = ('messages', 'conversation', 'conversations')  # the keys of messages
EMPTY: tuple[Any, ...] = (None, '', [], {}, False)
# what the role of the one system is called
ASSISTANT = frozenset({'assistant', 'gpt', 'chatgpt', 'bot', 'ai', 'model'})
# a prompt, which may stand in the place of a system's name, has blanks or is no ASCII
NAME = re.compile(r'[\w./:@+-]+', re.ASCII)
INSIDE = (
    'messages',
    'choices',
    'message',
    'output',
    'input',
    'text',
    'generations',
    'prompts',
)


@frozen
class MessageKeys:
    """
    The keys of a format: those that may hold the list of messages, and those of a
    message that hold its role and its text.
    """

    lists: tuple[str, ...]
    role: str
    text: str

    def looks_like(self, source: SourceFile) -> bool:
        """
        True if the first record holds a list of messages, or is a message.
        """
        record = first_record(source)
        lists = (record.get(key) for key in self.lists)
        messages = [one for some in lists if isinstance(some, list) for one in some]
        if messages:
            return self._is_message(messages[0])
        return self.lists[0] in record or self._is_one_dialogue(source)

    def read(self, source: SourceFile) -> Iterator[SourceDialogue]:
        """
        Yield the dialogues of a file.
        """
        records = None
        if self._is_one_dialogue(source):
            records = [(1, '', {self.lists[0]: source.document})]
        return dialogues_of_records(source, self.dialogue, records)

    def _is_message(self, record: Any) -> bool:
        return isinstance(record, Mapping) and {self.role, self.text} <= set(record)

    def _is_one_dialogue(self, source: SourceFile) -> bool:
        is_message = self._is_message(first_record(source))
        return is_message and source.document is not None

    def dialogue(self, source: SourceFile, record: Record) -> SourceDialogue:
        """
        Return the dialogue of a record.

        :raises BadRecord: for what cannot be read.
        """
        about = (record.get(name) for name in ('model', 'system'))
        model, system = (one.strip() if isinstance(one, str) else '' for one in about)
        is_prompt = not NAME.fullmatch(system)
        name = model if is_prompt else system
        turns: list[SourceTurn] = []
        instructions = Counter(['system'] if system and is_prompt else ())
        unread: Counter[str] = Counter()
        inside = 0
        for number, message in enumerate(self._messages(record), 1):
            where = f'message {number}'
            role = text_value(message, self.role, where).strip()
            if role in (*INSTRUCTIONS, MEDIA):
                instructions[role] += 1
                inside += bool(turns)
                continue
            text = message_text(message, self.text, where)
            unread.update(self._unread(message))
            speaker = name if name and role.casefold() in ASSISTANT else role
            turns.append(SourceTurn(speaker, text))
        return SourceDialogue(
            turns,
            id_value(record, *IDS),
            frozenset(t.speaker for t in turns if t.speaker.casefold() in PEOPLE),
            unread=Unread(instructions, inside, unread),
        )

    def _messages(self, record: Record) -> list[Any]:
        """
        Return the list of messages of a record, which must be one only.
        """
        filled = [key for key in LISTS if record.get(key)]
        if len(filled) > 1:
            raise BadRecord(
                f'messages under {filled[0]!r} and under {filled[1]!r}: one list is '
                'expected, that of the dialogue'
            )
        key = next((key for key in self.lists if key in record), self.lists[0])
        return list_value(record, key)

    def _unread(self, message: Record) -> Iterator[str]:
        """
        Yield the keys of a message that are not read, and its thoughts.
        """
        for key, value in message.items():
            if key not in (self.role, self.text) and value not in EMPTY:
                yield key
        parts = message[self.text]
        for part in parts if isinstance(parts, list) else ():
            if part['type'] in THOUGHTS:
                yield part['type']


def message_text(message: Record, key: str, where: str) -> str:
    """
    Return the text of a message; a list of parts must hold texts, and `THOUGHTS`, only.

    :raises BadRecord: for anything else.
    """
    parts = message.get(key)
    if not isinstance(parts, list):
        return text_value(message, key, where)
    texts = []
    for part in parts:
        kind = part.get('type') if isinstance(part, Mapping) else None
        if kind in TEXT_PARTS:
            texts.append(text_value(part, 'text', where))
        elif kind not in THOUGHTS:
            raise BadRecord(
                f'{where}: {key!r} has a part that is no text: {brief(part)}'
            )
    return '\n'.join(texts)


def _telegram(record: Record) -> Iterator[Record]:
    messages = []
    for message in record['messages']:
        parts = message.get('text')
        parts = parts if isinstance(parts, list) else [parts]
        texts = (p.get('text') if isinstance(p, Mapping) else p for p in parts)
        text = ''.join(str(one or '') for one in texts)
        if message.get('type') == 'message':
            # an account that was deleted has no name any more
            name = message.get('from') or message.get('from_id')
            messages.append({'role': name if text.strip() else MEDIA, 'content': text})
    yield {'messages': messages, 'id': record.get('id')}


def _inspect(record: Record) -> Iterator[Record]:
    model = record['eval'].get('model')
    for sample in record.get('samples') or ():
        epoch = sample.get('epoch', 1)
        name = f'{sample.get("id")}' + (f' epoch {epoch}' if epoch != 1 else '')
        yield {'messages': sample.get('messages'), 'model': model, 'id': name}


def _judged_pair(record: Record) -> Iterator[Record]:
    for side in ('a', 'b'):
        name = f'{record.get("question_id")} {side} {record.get("judge", "")}'.strip()
        messages, model = record[f'conversation_{side}'], record.get(f'model_{side}')
        yield {'messages': messages, 'model': model, 'id': name}


def _call(record: Record, asked: str, answered: str) -> Iterator[Record]:
    """
    Yield one call of a model: what was asked, under one key, and answered.
    """
    kind = record.get('run_type', 'llm')
    if kind not in ('llm', 'chain'):
        raise BadRecord(f"'run_type' is 'llm' or 'chain', not {brief(kind)}")
    about = (record.get('extra') or record).get('metadata')
    model = record.get('model')
    if not model and isinstance(about, Mapping):
        model = about.get('ls_model_name')
    before = _messages(record[asked], 'user', asked)
    answer = _messages(record[answered], 'assistant', answered)
    if answer[: len(before)] == before:  # the whole state of a graph
        before = []
    yield {'messages': [*before, *answer], 'model': model, 'id': record.get('id')}


def _messages(value: Any, role: str, where: str) -> list[Record]:
    """
    Return the messages in what was asked or answered: a text, a message, or these in
    lists and under usual keys.

    :raises BadRecord: for anything else.
    """
    if isinstance(value, str):
        return [{'role': role, 'content': value}]
    if isinstance(value, list) and value:
        if isinstance(value[0], Mapping) and _message(value[0], role):
            return [_message(one, role) or one for one in value]
        if len(value) == 1 or not isinstance(value[0], str):
            return _messages(value[0], role, where)
    if isinstance(value, Mapping):
        if message := _message(value, role):
            return [message]
        for key in INSIDE:
            if key in value:
                return _messages(value[key], role, where)
        if len(value) == 1:
            return _messages(next(iter(value.values())), role, where)
    raise BadRecord(f'{where!r}: no messages in {brief(value)}')


def _message(value: Record, role: str) -> Record | None:
    """
    Return a message, or one that LangChain wrote, with its role; `None` for no message.

    :param role: of a message that does not name its own.
    """
    body, kind = value, value.get('type')
    if 'kwargs' in value:
        body = value['kwargs']
        kind = body.get('type') or value['id'][-1]
    elif 'data' in value:
        body = value['data']
    if 'content' not in body:
        return None
    kind = str(kind).lower().removesuffix('chunk').removesuffix('message')
    if 'role' in body or kind not in LANGCHAIN_ROLES:
        return {'role': role, **body}
    kept = {key: body[key] for key in LANGCHAIN_KEPT if body.get(key)}
    return {'role': LANGCHAIN_ROLES[kind], 'content': '', **kept}


OPENAI = MessageKeys(LISTS, 'role', 'content')
SHAREGPT = MessageKeys(('conversations', 'messages'), 'from', 'value')


def _export(
    example: str, keys: tuple[str, ...], unpack: Callable[[Record], Iterator[Record]]
) -> Format:
    """
    Return a format whose records become records of OpenAI's format, one a dialogue.
    """

    def records(record: Record) -> list[Record]:
        try:
            return list(unpack(record))
        except DATA_ERRORS:
            raise BadRecord(f'laid out otherwise than {example}') from None

    return record_format(example, keys, OPENAI.dialogue, unpack=records)


# --- WhatsApp, and the logs of studies ------------------------------------------------
# Dialogues as three studies published them: ChatMatch, Spot The Bot and DSTC9.
#
# ChatMatch's logs hold one dialogue a file, one turn a line, ``NAME: text``. The
# speakers are named in the lines, never in the file's name. WhatsApp's text file,
# which is read here too, has a date before each name; a message may go on over lines,
# and lines of the program itself (who joined, what is encrypted) are no turns.
# Messages without a text of somebody (``<Media omitted>``, ``This message was
# deleted``) are counted and left out.
#
# Spot The Bot's sampled dialogues stand one a line, with which of the sides are
# people. Speakers are called by their type, as in the turns. What generation left in
# the texts (``< /s >``, ``<pad>``) stays unless ``--strip-markers`` is given.
#
# DSTC9's interactive dialogues are a JSON list with one object a rating. Neighbouring
# objects with the same ``context`` rate one dialogue. The lines of a context begin
# with ``User:`` or ``System:``; any other line continues the turn before it. Every
# bot is called ``System``, so it is given the name of its file.

FORM = 'NAME: text'
TURN = re.compile('(?P<name>[^:]*): ?(?P<text>.*)')
TURN_BEGINS = re.compile(r'\s*[^\s:\[{<][^:]*:')  # and is no JSON or markup
# [31.12.23, 21:15:02] or 12/31/23, 9:15 PM - or 31.12.2023 klo 21.15 - , and marks of
# the direction of text before it; a title in quotation marks, which may have a colon,
# is in a line of the program
DATED_TURN = re.compile(
    r'[\u200e\u200f]*\[?\d{1,4}[./-] ?\d{1,2}[./-] ?\d{2,4}\.?[,،]? '
    r'(?:[^\W\d]+ ?)?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?'
    r'(?:\s?(?:[AaPp]\.?\s?[Mm]\.?|[^\W\d]{1,2}))?(?:\]| -) '
    r'(?:(?P<name>[^"“„«]*?): (?P<text>.*))?'
)
# what WhatsApp puts in the place of a photo, a call or a deleted text: behind a mark of
# direction or in angle brackets (not <html>), or else in words of the phone's language
NO_TEXT = re.compile(
    r'\u200e.*|.* •(?: \u200e.*)?|<(?![!-~]+>)[^<>]+>|null'
    r'|.+ \((?:file attached|Datei angehängt|fichier joint|archivo adjunto|'
    r'arquivo anexado|file allegato|bestand bijgevoegd)\)'
    r'|(?:image|video|audio|sticker|GIF|document|Contact card) omitted'
    r'|(?:Bild|Video|Audio|Sticker|GIF|Dokument|Kontaktkarte) weggelassen'
    r'|(?:This message was deleted|You deleted this message'
    r'|Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht'
    r'|Ce message a été supprimé|Vous avez supprimé ce message'
    r'|Se eliminó este mensaje|Este mensaje fue eliminado|Eliminaste este mensaje'
    r'|Questo messaggio è stato eliminato|Hai eliminato questo messaggio'
    r'|(?:Essa m|Esta m|M)ensagem (?:foi )?(?:apagada|eliminada)'
    r'|Você apagou esta mensagem|Dit bericht is verwijderd'
    r'|U (?:hebt|heeft) dit bericht verwijderd)\.?'
)
# what it puts behind a text: that it was edited, or the file that it was sent with
NOTE = re.compile(
    r' ?(?:\u200e(?:<[^<>\n]*>|\w+ \w+)|<(?:This message was edited'
    r'|Diese Nachricht wurde bearbeitet|Ce message a été modifié|Se editó este mensaje'
    r'|Questo messaggio è stato modificato|Mensagem editada)\.?>)$'
)
HUMAN, BOT = 'User', 'System'
RATINGS = re.compile(r'\s*\[.*"context"', re.DOTALL)  # as a JSON list of them begins


def read_log(
    source: SourceFile, pattern: re.Pattern[str] = TURN
) -> Iterator[SourceDialogue]:
    """
    Yield the one dialogue of a file with turns in lines; empty lines are skipped. A
    turn with a date before it may go on in the next lines.
    """
    turns = []
    problems = []
    in_turn = False
    for number, line in enumerate(source.lines, 1):
        match = pattern.match(line)
        name = ((match and match['name']) or '').strip()
        if not line.strip():
            continue
        if not is_utf8(line):
            problems.append(source.problem(number, NOT_UTF8))
        elif match and name:
            turns.append(SourceTurn(name, match['text'], number))
            in_turn = True
        elif pattern is TURN:
            problem = f'a turn is a line {FORM!r}, this one is {brief(line)}'
            problems.append(source.problem(number, problem))
        elif match:  # of the program, as are the lines that it goes on in
            in_turn = False
        elif in_turn:
            turns[-1] = replace(turns[-1], text=f'{turns[-1].text}\n{line}')
    first = next((turn.line for turn in turns), None) or 1
    yield SourceDialogue(turns, file=source.file, line=first, problems=problems)


def _whatsapp(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the one dialogue of a file, without messages in which nobody wrote anything.
    """
    for dialogue in read_log(source, DATED_TURN):
        turns = []
        inside = 0
        for turn in dialogue.turns:
            text = NOTE.sub('', turn.text)
            first, _, caption = text.partition('\n')
            text = caption if NO_TEXT.fullmatch(first) else text
            if text.strip():
                turns.append(replace(turn, text=text))
            else:
                inside += bool(turns)
        unread = Unread(Counter({MEDIA: len(dialogue.turns) - len(turns)}), inside)
        yield replace(dialogue, turns=turns, unread=unread)


def _spot_the_bot(source: SourceFile, record: Record) -> SourceDialogue:
    sides = [text_value(record, f'system_type{k}', 'the record') for k in (0, 1)]
    people = (sides[k] for k in (0, 1) if record.get(f'is_human{k}') is True)
    turns = [
        SourceTurn(
            text_value(act, 'id', f'turn {number}').strip(),
            text_value(act, 'text', f'turn {number}'),
        )
        for number, act in enumerate(list_value(record, 'convo'), 1)
    ]
    return SourceDialogue(
        turns,
        id_value(record, '_id'),
        frozenset(people),
        num_systems=1 if sides[0] == sides[1] else None,
        sides=tuple(sides),
    )


def rated_dialogues(
    source: SourceFile,
) -> Iterator[tuple[SourceDialogue, list[Record]]]:
    """
    Yield the dialogues of DSTC9 with their ratings, which are the objects of the file.
    """
    try:
        ratings = source.document
        if not ratings:
            raise BadRecord("a JSON list of objects with 'context' is expected")
    except BadRecord as error:
        yield source.unreadable(error.line, str(error)), []
        return
    n = 0
    for context, same in groupby(
        enumerate(ratings, 1),
        key=lambda one: one[1].get('context') if isinstance(one[1], dict) else None,
    ):
        numbered = list(same)
        place = f'object {numbered[0][0]}: '
        try:
            if not isinstance(context, str):
                raise BadRecord(f"'context' is a text, not {brief(context)}")
            n += 1
            turns = list(_rated_turns(context, source.stem))
        except BadRecord as error:
            yield source.unreadable(1, f'{place}{error}'), []
            continue
        name, people = f'{source.stem}-{n}', frozenset({HUMAN})
        dialogue = SourceDialogue(turns, name, people, source.file, place=place)
        yield dialogue, [rating for _, rating in numbered]


def _rated_turns(context: str, bot: str) -> Iterator[SourceTurn]:
    """
    Yield the turns of a context; line breaks inside a turn are kept.
    """
    names = {HUMAN: HUMAN, BOT: bot}
    speaker, texts = '', list[str]()
    for line in context.removesuffix('\n').split('\n'):
        name, colon, text = line.partition(':')
        if colon and name in names:
            if speaker:
                yield SourceTurn(speaker, '\n'.join(texts).strip())
            speaker, texts = names[name], [text]
        elif speaker:
            texts.append(line)
        else:
            raise BadRecord(
                f"a context begins with '{HUMAN}:' or '{BOT}:', not {brief(line)}"
            )
    yield SourceTurn(speaker, '\n'.join(texts).strip())


# --- ParlAI's logs --------------------------------------------------------------------
# Dialogues as ParlAI writes them: its Conversations format, and logs of model_chat.
#
# ``parlai``: one dialogue a line, with ``.metadata`` beside the file.
#
#   {"dialogue_id": "chat-7", "dialog": [[{"id": "human", "text": "Hi!"},
#                                         {"id": "some-bot", "text": "Hello."}]]}
#
# ``id`` is the speaker. ParlAI calls the speaker of personas and the like
# ``context``; such acts are no turns. The log of a `self_chat` says in its metadata
# whether two models talk, and whether the first turn is an opener. A run's own shards
# are such files.
#
# ``model_chat``: a person talks with a system, one chat a file.
#
#   {"dialog": [{"agent_idx": 0, "text": "Hi!", "fake_start": true, …},
#               {"agent_idx": 1, "text": "Hello.", …, "final_rating": "4|5|3|4"}],
#    "workers": ["A1B2"], "bad_workers": [], "acceptability_violations": [null],
#    "assignment_ids": ["7"], "task_description": {"model_nickname": "some-bot", …}}
#
# Agent 0 is the person and agent 1 the system; nobody said a turn with
# ``fake_start``, of which ParlAI makes one or two. Source: ``model_chat/worlds.py``,
# `get_final_chat_data`.

CONTEXT = 'context'
WORKER = 'human'  # all people: the id of a worker is nobody else's business
BAD_WORKER = 'of annotators recorded as bad'
VIOLATION = 'with a recorded violation'


def conversation(source: SourceFile, record: Record) -> SourceDialogue:
    """
    Return the dialogue of a record of the Conversations format, by any program. Unread
    are the acts of ``context`` that have a text: those among the turns, and those that
    ParlAI's logs hold beside them, under ``context``.

    :raises BadRecord: names the key and the act that is wrong.
    """
    turns: list[SourceTurn] = []
    beside = record.get(CONTEXT)
    acts = beside if isinstance(beside, list) else []
    contexts = [act for act in acts if isinstance(act, dict) and act.get('text')]
    exchanges = list_value(record, 'dialog')
    if not all(isinstance(exchange, list) for exchange in exchanges):
        raise BadRecord("'dialog' is a list of lists of acts")
    inside = 0
    for number, act in enumerate(chain(*exchanges), 1):
        speaker = text_value(act, 'id', f'act {number}').strip()
        if speaker == CONTEXT and act.get('text'):
            contexts.append(act)
            inside += bool(turns)
        elif speaker != CONTEXT:
            text = text_value(act, 'text', f'act {number}')
            turns.append(SourceTurn(speaker, text, given=act.get('given') is True))
    unread = Unread(Counter({CONTEXT: len(contexts)}), inside)
    return SourceDialogue(turns, id_value(record, IDS[0]), unread=unread)


def _logged_conversation(source: SourceFile, record: Record) -> SourceDialogue:
    """
    Return the dialogue of a record, with what the metadata of its file say of it.
    """
    dialogue = conversation(source, record)
    if source.metadata.get('self_chat'):
        opt, turns = source.metadata['opt'], dialogue.turns
        # by `SelfChatWorld.get_openers`, though it has the name of the first system
        if any(opt.get(f'seed_messages_from_{place}') for place in ('file', 'task')):
            turns = (*(replace(turn, given=True) for turn in turns[:1]), *turns[1:])
        num_systems = max(1, len(self_chat_models(source.metadata)))
        dialogue = replace(dialogue, turns=turns, num_systems=num_systems)
    return dialogue


def read_dialogues(path: str | Path) -> list[Dialogue]:
    """
    Return the dialogues of a file; one without an id is called by its line, from 1.

    :raises UserError: names file, line and key of the first mistake.
    """
    dialogues = {}
    source = SourceFile.from_path(Path(path))
    for one in dialogues_of_records(source, conversation):
        if one.problems:
            raise UserError(one.problems[0])
        name = one.id or str(one.line)
        if name in dialogues:
            problem = f"'dialogue_id': {name!r} is there already"
            raise UserError(f'{path}:{one.line}: {problem}')
        utterances = (Utterance(t.speaker, t.text, t.given) for t in one.turns)
        dialogues[name] = Dialogue(name, '', '', tuple(utterances))
    if not dialogues:
        raise UserError(f'{path}: no dialogue in it')
    return list(dialogues.values())


def self_chat_models(about: Record) -> list[str]:
    """
    Return the model files of a self-chat by its metadata: one, or two where ParlAI's
    `self_chat` was given a partner that is another model, or has other options.
    """
    opt = about['opt']
    own, partner = opt.get('model_file'), opt.get('partner_model_file')
    if partner and opt.get('partner_opt_file'):
        partner = f'{partner} with {opt["partner_opt_file"]}'
    return list(dict.fromkeys(str(name) for name in (own, partner) if name))


@frozen
class Chat:
    """
    One record of model_chat.

    :param id: that of its assignment; empty where there is none.
    :param turns: each has ``agent_idx``, 0 for the person and 1 for the system.
    :param rejected: by which control of quality it is to be left out, if by any.
    """

    id: str
    system: str
    worker: str
    turns: Sequence[Record]
    rejected: str = ''

    @classmethod
    def from_record(cls, record: Record) -> Chat:
        """
        Return the chat of a record.

        :raises BadRecord: names the key that is wrong.
        """
        about = record.get('task_description')
        system = text_value(about, 'model_nickname', 'task_description').strip()
        workers = _texts(record, 'workers')
        if not (system and workers):
            raise BadRecord("'workers' and 'model_nickname' are expected to be filled")
        turns = list_value(record, 'dialog')
        for place, turn in enumerate(turns):
            if not isinstance(turn, dict) or turn.get('agent_idx') not in (0, 1):
                raise BadRecord(f'dialog[{place}]: an agent_idx of 0 or 1 is expected')
        rejected = ''
        if {*workers} & {*_texts(record, 'bad_workers')}:
            rejected = BAD_WORKER
        elif any(_texts(record, 'acceptability_violations')):
            rejected = VIOLATION
        name = '-'.join(_texts(record, 'assignment_ids'))
        return cls(name, system, workers[0], turns, rejected)


def _chat_dialogue(source: SourceFile, record: Record) -> SourceDialogue:
    """
    Return the chat of a record. One that quality control left out is a bad row.
    """
    chat = Chat.from_record(record)
    if chat.rejected:
        raise BadRecord(f'a chat {chat.rejected}')
    turns = [
        SourceTurn(
            (WORKER, chat.system)[turn['agent_idx']],
            text_value(turn, 'text', f'dialog[{place}]'),
            given=turn.get('fake_start') is True,
        )
        for place, turn in enumerate(chat.turns)
    ]
    name, people = chat.id or source.stem, frozenset({WORKER})
    personas = sum(map(bool, record.get('personas') or ()))
    unread = Unread(Counter(persona=personas))
    return SourceDialogue(turns, name, people, unread=unread)


def _texts(record: Record, key: str) -> list[str]:
    """
    Return a list of texts; a missing key is an empty one, `None` in it an empty text.
    """
    values = record.get(key) or []
    if not isinstance(values, list):
        raise BadRecord(f'{key!r} is a list, not {brief(values)}')
    return ['' if value is None else str(value) for value in values]


# --- rows -----------------------------------------------------------------------------
# Dialogues as rows: one turn a row, in a CSV file or as JSON objects.
#
#     dialogue_id  id of the dialogue (needed); its rows stand together, in order
#     speaker      name of the speaker (needed)
#     text         the utterance (needed; may hold commas and lines in a CSV file)
#     turn         number of the turn in its dialogue, in steps of one (optional)
#     given        true where no system produced it: an opener (optional)
#     reference    what people said in its place, one a line or a list (optional)
#
# Columns are parted by commas, semicolons or tabs, and may have other names
# (`SourceFile.columns`). A JSON object may also be a whole dialogue: ``dialogue_id`` or
# ``id`` (optional) and ``turns``, a list of objects with ``speaker``, ``text`` and,
# optionally, ``given`` and ``reference``. Other columns and keys are not read.

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
    _, cells = _csv_header(source)
    return wanted <= cells


def _csv_header(source: SourceFile) -> tuple[str, set[str]]:
    """
    Return what parts the columns of a CSV file, and the cells of its first line by it:
    that by which this line has most of the needed columns, or else most columns.
    """
    needed = set(map(source.column, NEEDED))
    first = source.lines[0] if source.lines else ''
    header = first[:HEADER].replace('"', '')
    cells = {d: {cell.strip() for cell in header.split(d)} for d in DELIMITERS}
    return max(cells.items(), key=lambda one: (len(needed & one[1]), len(one[1])))


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


def _whole_dialogue(source: SourceFile, record: Record) -> SourceDialogue:
    turns = [
        _turn(source, turn, f'turn {turn_number}')
        for turn_number, turn in enumerate(list_value(record, 'turns'), 1)
    ]
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
        turns = [row.turn for row in group if row.turn]
        yield SourceDialogue(
            turns, name, file=source.file, line=line, problems=problems
        )


def _csv_records(source: SourceFile) -> Iterator[NumberedRecord]:
    """
    Yield the rows below the header as records without empty cells; an empty text stays.

    :raises UserError: for a header that no row can be read by.
    """
    delimiter, _ = _csv_header(source)
    rows = split_rows(source.lines, delimiter)
    key, text = source.column('dialogue_id'), source.column('text')
    try:
        line, header = next(rows, (1, []))
        places = column_places(header, [*map(source.column, NEEDED)], line=line)
    except CsvProblem as problem:
        hint = '--columns dialogue_id=NAME,… for columns of other names'
        place = f'{source.file}:{problem.line}'
        raise UserError(f'{place}: {problem}; {hint}') from None
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
    source: SourceFile, line: int, place: str, record: Record | BadRecord
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


# the first that fits is taken, so the logs of ChatMatch, which fit almost any text,
# come last
FORMATS = {
    'model_chat': record_format(
        '{"dialog": [{"agent_idx": 0, "text": "Hi!"}, …], "task_description": …}',
        ('dialog', 'task_description'),
        _chat_dialogue,
    ),
    'parlai': record_format(
        '{"dialog": [[{"id": "NAME", "text": "Hi!"}, …], …]}',
        ('dialog',),
        _logged_conversation,
        self_chats=True,
    ),
    'spot_the_bot': record_format(
        '{"convo": [{"id": "NAME", "text": "Hi!"}, …], …}', ('convo',), _spot_the_bot
    ),
    'telegram': _export(
        '{"name": …, "type": …, "messages": [{"from": "NAME", "text": "Hi!"}, …]}',
        ('messages', 'name', 'type'),
        _telegram,
    ),
    'inspect': _export(
        '{"eval": {"model": "NAME"}, "samples": [{"messages": […], …}]}',
        ('eval', 'samples'),
        _inspect,
    ),
    'mt_bench': _export(
        '{"conversation_a": […], "conversation_b": […], "model_a": "NAME", …}',
        ('conversation_a', 'conversation_b'),
        _judged_pair,
    ),
    'langsmith': _export(
        '{"inputs": {"messages": […]}, "outputs": {"output": "Hello."}}',
        ('inputs', 'outputs'),
        partial(_call, asked='inputs', answered='outputs'),
    ),
    'langfuse': _export(
        '{"input": "Hi!", "output": "Hello."}',
        ('input', 'output'),
        partial(_call, asked='input', answered='output'),
    ),
    'openai': Format(
        '{"messages": [{"role": "user", "content": "Hi!"}, …]}',
        OPENAI.looks_like,
        OPENAI.read,
    ),
    'sharegpt': Format(
        '{"conversations": [{"from": "human", "value": "Hi!"}, …]}',
        SHAREGPT.looks_like,
        SHAREGPT.read,
    ),
    'jsonl': Format(
        '{"dialogue_id": "1", "speaker": "NAME", "text": "Hi!"}',
        looks_like_json,
        read_json_dialogues,
        columns=True,
    ),
    'csv': Format(
        'dialogue_id,speaker,text',
        looks_like_csv,
        lambda source: _joined(source, _csv_records(source)),
        columns=True,
    ),
    'dstc9': Format(
        r'[{"context": "User: Hi!\nSystem: Hello.\n", …}, …]',
        lambda source: RATINGS.match('\n'.join(source.lines[:40])[:4000]) is not None,
        lambda source: (dialogue for dialogue, _ in rated_dialogues(source)),
    ),
    'whatsapp': Format(
        '31/12/2023, 21:15 - NAME: text',
        lambda source: DATED_TURN.match(source.first_line) is not None,
        _whatsapp,
    ),
    'chatmatch': Format(
        FORM,
        lambda source: TURN_BEGINS.match(source.first_line) is not None,
        read_log,
        self_chats=True,
    ),
}
