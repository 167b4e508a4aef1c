"""
Chat logs as lists of messages: OpenAI's ``messages`` and ShareGPT's ``conversations``.

    {"messages": [{"role": "user", "content": "Hi!"},
                  {"role": "assistant", "content": "Hello."}], "model": "some-model"}
    {"id": "7", "conversations": [{"from": "human", "value": "Hi!"},
                                  {"from": "gpt", "value": "Hello."}]}

as JSON lines or in one JSON list; a file may also be one list of OpenAI's messages.
Instructions (``system``) are no turns; they and keys of turns that are not read, such
as ``name``, are counted. Users are people. A system is called by the
record's ``model``, or else by its role.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from parlai_ext.data.source_file import (
    BadRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    Unread,
    brief,
    dialogues_of_records,
    first_record,
    id_value,
    list_value,
    text_value,
)

IDS = ('dialogue_id', 'conversation_id', 'id')
PEOPLE = frozenset({'user', 'human'})
INSTRUCTIONS = ('system', 'developer')
LISTS = ('messages', 'conversation', 'conversations')  # the keys of messages
EMPTY: tuple[Any, ...] = (None, '', [], {}, False)
ASSISTANT = ('assistant', 'gpt')  # what the role of the one system is called


@dataclass(frozen=True)
class MessageFormat:
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
        return any(key in record for key in self.lists[:1]) or (
            self._is_message(record) and source.document is not None
        )

    def read(self, source: SourceFile) -> Iterator[SourceDialogue]:
        """
        Yield the dialogues of a file.
        """
        if self._is_message(first_record(source)) and source.document is not None:
            whole = {self.lists[0]: source.document}
            try:
                yield self.dialogue(source, 1, whole)
            except BadRecord as error:
                yield source.unreadable(1, str(error))
            return
        yield from dialogues_of_records(
            source, lambda number, record: self.dialogue(source, number, record)
        )

    def _is_message(self, record: Any) -> bool:
        return isinstance(record, Mapping) and {self.role, self.text} <= set(record)

    def dialogue(
        self, source: SourceFile, line: int, record: Mapping[str, Any]
    ) -> SourceDialogue:
        """
        Return the dialogue of a record in this line.

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
        name = next((name for name in ids if name is not None), None)
        return SourceDialogue(
            source.file,
            line,
            tuple(turns),
            name,
            PEOPLE,
            unread=Unread(instructions, inside, unread),
        )


def _text(message: Mapping[str, Any], key: str, where: str) -> str:
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


OPENAI = MessageFormat(LISTS, 'role', 'content')
SHAREGPT = MessageFormat(('conversations',), 'from', 'value')
