"""
Chats as other programs export them: WhatsApp, Telegram, LangSmith, Langfuse, inspect_ai
and MT-Bench.

All but WhatsApp's are JSON records with lists of messages inside, which are read as
those of OpenAI's format (`chat_messages.py`). Logs of inspect_ai are its `EvalLog` as
JSON (``inspect log dump``), MT-Bench's are its judgements of people, with both
conversations. WhatsApp's text file is one dialogue: a message may go on over lines, and
lines of the program itself (who joined, what is encrypted) are no turns.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from parlai_ext.data.chat_messages import OPENAI
from parlai_ext.data.source_file import (
    NOT_UTF8,
    BadRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    brief,
    first_record,
    numbered_records,
)
from parlai_ext.files.text_file import is_utf8

Record = Mapping[str, Any]
# [31.12.23, 21:15:02] or 12/31/23, 9:15 PM - ; marks of the direction of text before it
STAMP = re.compile(
    r'[\u200e\u200f]*\[?\d{1,4}[./-]\d{1,2}[./-]\d{2,4},? '
    r'\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:[\s\u202f]?[AaPp]\.?[Mm]\.?)?(?:\]| -) '
)
INSIDE = ('messages', 'choices', 'message', 'output', 'input', 'text', 'generations')


@dataclass(frozen=True)
class Export:
    """
    A format of JSON records with messages inside.

    :param keys: what a record has.
    :param unpack: yields a record of OpenAI's format for each dialogue of a record.
    """

    keys: tuple[str, ...]
    unpack: Callable[[Record], Iterator[Record]]

    def looks_like(self, source: SourceFile) -> bool:
        """
        True if the first record has all the keys.
        """
        return set(self.keys) <= set(first_record(source))

    def read(self, source: SourceFile) -> Iterator[SourceDialogue]:
        """
        Yield the dialogues of a file; a record with a mistake has none.
        """
        for line, place, record in numbered_records(source):
            try:
                if isinstance(record, BadRecord):
                    raise record
                for one in self.unpack(record):
                    yield replace(OPENAI.dialogue(source, line, one), place=place)
            except BadRecord as error:
                yield source.unreadable(line, f'{place}{error}')


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


def _call(asked: str, answered: str) -> Callable[[Record], Iterator[Record]]:
    """
    Return how a record of one call of a model is unpacked: what was asked and answered.
    """

    def unpack(record: Record) -> Iterator[Record]:
        extra = record.get('extra') or record
        about = extra.get('metadata') or {}
        yield {
            'messages': [
                *_messages(record[asked], 'user'),
                *_messages(record[answered], 'assistant'),
            ],
            'model': record.get('model') or about.get('ls_model_name'),
            'id': record.get('id'),
        }

    return unpack


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


TELEGRAM = Export(('messages', 'name', 'type'), _telegram)
INSPECT = Export(('eval', 'samples'), _inspect)
MT_BENCH = Export(('conversation_a', 'conversation_b'), _judged_pair)
LANGSMITH = Export(('inputs', 'outputs'), _call('inputs', 'outputs'))
LANGFUSE = Export(('input', 'output'), _call('input', 'output'))


def looks_like_whatsapp(source: SourceFile) -> bool:
    """
    True if the first line that is not empty has the date and time of a message.
    """
    return STAMP.match(source.first_line) is not None


def read_whatsapp(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the one dialogue of the file.
    """
    turns: list[SourceTurn] = []
    problems = []
    for number, line in enumerate(source.lines, 1):
        if not is_utf8(line):
            problems.append(source.problem(number, NOT_UTF8))
        elif stamp := STAMP.match(line):
            name, colon, text = line[stamp.end() :].partition(': ')
            if colon:
                turns.append(SourceTurn(name, text, number))
        elif turns and line:
            turns[-1] = replace(turns[-1], text=f'{turns[-1].text}\n{line}')
    yield SourceDialogue(source.file, 1, tuple(turns), problems=tuple(problems))
