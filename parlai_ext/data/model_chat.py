"""
The logs of ParlAI's model_chat task: a person talks with a system, one chat a file.

    {"dialog": [{"agent_idx": 0, "text": "Hi!", "fake_start": true, …},
                {"agent_idx": 1, "text": "Hello.", …, "final_rating": "4|5|3|4"}],
     "workers": ["A1B2"], "bad_workers": [], "acceptability_violations": [null],
     "assignment_ids": ["7"], "task_description": {"model_nickname": "some-bot", …}}

Agent 0 is the person and agent 1 the system; nobody said a turn with ``fake_start``, of
which ParlAI makes one or two. Source: ``model_chat/worlds.py``, `get_final_chat_data`.
"""

from __future__ import annotations

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
    list_value,
    text_value,
)

HUMAN = 'human'  # all people: the id of a worker is nobody else's business
BAD_WORKER = 'of annotators recorded as bad'
VIOLATION = 'with a recorded violation'


@dataclass(frozen=True)
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
    turns: tuple[Mapping[str, Any], ...]
    rejected: str = ''

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Chat:
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
        return cls(name, system, workers[0], tuple(turns), rejected)


def looks_like(source: SourceFile) -> bool:
    """
    True if the first record has ``dialog`` and ``task_description``.
    """
    return {'dialog', 'task_description'} <= first_record(source).keys()


def read(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the chats of a file. One that quality control left out is a bad row.
    """

    def dialogue(number: int, record: Mapping[str, Any]) -> SourceDialogue:
        chat = Chat.from_record(record)
        if chat.rejected:
            raise BadRecord(f'a chat {chat.rejected}')
        names = (HUMAN, chat.system)
        turns = tuple(
            SourceTurn(
                names[turn['agent_idx']],
                text_value(turn, 'text', f'dialog[{place}]'),
                number,
                given=turn.get('fake_start') is True,
            )
            for place, turn in enumerate(chat.turns)
        )
        personas = sum(map(bool, record.get('personas') or ()))
        return SourceDialogue(
            source.file,
            number,
            turns,
            chat.id or source.stem,
            frozenset({HUMAN}),
            unread=Unread({'persona': personas}),
        )

    yield from dialogues_of_records(source, dialogue)


def _texts(record: Mapping[str, Any], key: str) -> list[str]:
    """
    Return a list of texts; a missing key is an empty one, `None` in it an empty text.
    """
    values = record.get(key) or []
    if not isinstance(values, list):
        raise BadRecord(f'{key!r} is a list, not {brief(values)}')
    return ['' if value is None else str(value) for value in values]
