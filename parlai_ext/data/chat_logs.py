"""
Chats as lists of messages: OpenAI's ``messages``, ShareGPT's ``conversations``, and
such lists in exports of Telegram, LangSmith, Langfuse, inspect_ai and MT-Bench.

    {"messages": [{"role": "user", "content": "Hi!"},
                  {"role": "assistant", "content": "Hello."}], "model": "some-model"}
    {"id": "7", "conversations": [{"from": "human", "value": "Hi!"},
                                  {"from": "gpt", "value": "Hello."}]}

as JSON lines or in one JSON list; a file may also be one list of OpenAI's messages.
Instructions (``system``) are no turns; they and keys of turns that are not read, such
as ``name``, are counted. Users are people. A system is called by the
record's ``model``, or else by its role.

Logs of inspect_ai are its `EvalLog` as JSON (``inspect log dump``), MT-Bench's are its
judgements of people, with both conversations.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from parlai_ext.data.source_file import (
    BadRecord,
    Format,
    NumberedRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    Unread,
    brief,
    dialogues_of_records,
    first_record,
    id_value,
    list_value,
    record_format,
    text_value,
)

IDS = ('dialogue_id', 'conversation_id', 'id')
PEOPLE = frozenset({'user', 'human'})
INSTRUCTIONS = ('system', 'developer')
LISTS = ('messages', 'conversation', 'conversations')  # the keys of messages
EMPTY: tuple[Any, ...] = (None, '', [], {}, False)
ASSISTANT = ('assistant', 'gpt')  # what the role of the one system is called
INSIDE = ('messages', 'choices', 'message', 'output', 'input', 'text', 'generations')
Record = Mapping[str, Any]


@dataclass(frozen=True)
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
        records: list[NumberedRecord] | None = None
        if self._is_one_dialogue(source):
            records = [(1, '', {self.lists[0]: source.document})]
        return dialogues_of_records(source, self.dialogues, records)

    def _is_message(self, record: Any) -> bool:
        return isinstance(record, Mapping) and {self.role, self.text} <= set(record)

    def _is_one_dialogue(self, source: SourceFile) -> bool:
        is_message = self._is_message(first_record(source))
        return is_message and source.document is not None

    def dialogues(
        self, source: SourceFile, line: int, record: Record
    ) -> Iterator[SourceDialogue]:
        """
        Yield the dialogue of a record in this line.

        :raises BadRecord: for what cannot be read.
        """
        filled = [key for key in LISTS if record.get(key)]
        if len(filled) > 1:
            raise BadRecord(
                f'messages under {filled[0]!r} and under {filled[1]!r}: one list is '
                'expected, that of the dialogue'
            )
        key = next((key for key in self.lists if key in record), self.lists[0])
        model = record.get('model')
        model = model.strip() if isinstance(model, str) else ''
        turns: list[SourceTurn] = []
        instructions: Counter[str] = Counter()
        unread: Counter[str] = Counter()
        inside = 0
        for number, message in enumerate(list_value(record, key), 1):
            where = f'message {number}'
            role = text_value(message, self.role, where).strip()
            if role in INSTRUCTIONS:
                instructions[role] += 1
                inside += bool(turns)
                continue
            text = _text(message, self.text, where)
            unread.update(
                other
                for other, value in message.items()
                if other not in (self.role, self.text) and value not in EMPTY
            )
            speaker = model if model and role in ASSISTANT else role
            turns.append(SourceTurn(speaker, text, line))
        ids = (id_value(record, key) for key in IDS)
        yield SourceDialogue(
            source.file,
            line,
            tuple(turns),
            next((name for name in ids if name is not None), None),
            PEOPLE,
            unread=Unread(instructions, inside, unread),
        )


def _text(message: Record, key: str, where: str) -> str:
    """
    Return the text of a message; a list of parts must hold texts only.
    """
    parts = message.get(key)
    if not isinstance(parts, list):
        return text_value(message, key, where)
    for part in parts:
        if not isinstance(part, Mapping) or part.get('type') != 'text':
            raise BadRecord(
                f'{where}: {key!r} has a part that is no text: {brief(part)}'
            )
    return '\n'.join(text_value(part, 'text', where) for part in parts)


def _telegram(record: Record) -> Iterator[Record]:
    messages = []
    for message in record['messages']:
        parts = message.get('text')
        parts = parts if isinstance(parts, list) else [parts]
        texts = (p.get('text') if isinstance(p, Mapping) else p for p in parts)
        text = ''.join(str(one or '') for one in texts)
        if message.get('type') == 'message' and text:
            messages.append({'role': message.get('from'), 'content': text})
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
    about = (record.get('extra') or record).get('metadata') or {}
    messages = [
        *_messages(record[asked], 'user'),
        *_messages(record[answered], 'assistant'),
    ]
    model = record.get('model') or about.get('ls_model_name')
    yield {'messages': messages, 'model': model, 'id': record.get('id')}


def _messages(value: Any, role: str) -> list[Record]:
    """
    Return the messages in what was asked or answered: a text, a message, or these in
    lists and under usual keys.

    :raises BadRecord: for anything else.
    """
    if isinstance(value, str):
        return [{'role': role, 'content': value}]
    if isinstance(value, list) and value:
        if isinstance(value[0], Mapping) and 'content' in value[0]:
            return value
        return _messages(value[0], role)
    if isinstance(value, Mapping):
        if 'content' in value:
            return [{'role': role, **value}]
        for key in INSIDE:
            if key in value:
                return _messages(value[key], role)
    raise BadRecord(f'no messages in {brief(value)}')


OPENAI = MessageKeys(LISTS, 'role', 'content')
SHAREGPT = MessageKeys(('conversations',), 'from', 'value')


def _export(
    example: str, keys: tuple[str, ...], unpack: Callable[[Record], Iterator[Record]]
) -> Format:
    """
    Return a format whose records become records of OpenAI's format, one a dialogue.
    """

    def dialogues(
        source: SourceFile, line: int, record: Record
    ) -> Iterator[SourceDialogue]:
        for one in unpack(record):
            yield from OPENAI.dialogues(source, line, one)

    return record_format(example, keys, dialogues)


FORMATS = {
    'telegram': _export(
        '{"name": "NAME", "type": "personal_chat", ',
        ('messages', 'name', 'type'),
        _telegram,
    ),
    'inspect': _export('{"eval": {"model": "NAME"}, ', ('eval', 'samples'), _inspect),
    'mt_bench': _export(
        '{"model_a": "NAME", "conversation_a": [',
        ('conversation_a', 'conversation_b'),
        _judged_pair,
    ),
    'langsmith': _export(
        '{"inputs": {…}, "outputs": {…}}',
        ('inputs', 'outputs'),
        partial(_call, asked='inputs', answered='outputs'),
    ),
    'langfuse': _export(
        '{"input": …, "output": …}',
        ('input', 'output'),
        partial(_call, asked='input', answered='output'),
    ),
    'openai': Format(
        '{"messages": [{"role": "user", "content": "', OPENAI.looks_like, OPENAI.read
    ),
    'sharegpt': Format(
        '{"conversations": [{"from": "human", "value": "',
        SHAREGPT.looks_like,
        SHAREGPT.read,
    ),
}
