"""
Dialogues as ParlAI writes them: its Conversations format, and logs of model_chat.

``parlai``: one dialogue a line, with ``.metadata`` beside the file.

    {"dialogue_id": "chat-7", "dialog": [[{"id": "human", "text": "Hi!"},
                                          {"id": "some-bot", "text": "Hello."}]]}

``id`` is the speaker. ParlAI calls the speaker of personas and the like ``context``;
such acts are no turns. The log of a `self_chat` says in its metadata whether two models
talk, and whether the first turn is an opener. A run's own shards are such files.

``model_chat``: a person talks with a system, one chat a file.

    {"dialog": [{"agent_idx": 0, "text": "Hi!", "fake_start": true, …},
                {"agent_idx": 1, "text": "Hello.", …, "final_rating": "4|5|3|4"}],
     "workers": ["A1B2"], "bad_workers": [], "acceptability_violations": [null],
     "assignment_ids": ["7"], "task_description": {"model_nickname": "some-bot", …}}

Agent 0 is the person and agent 1 the system; nobody said a turn with ``fake_start``, of
which ParlAI makes one or two. Source: ``model_chat/worlds.py``, `get_final_chat_data`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.data.source_file import (
    BadRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    Unread,
    brief,
    dialogues_of_records,
    id_value,
    list_value,
    record_format,
    text_value,
)

CONTEXT = 'context'
HUMAN = 'human'  # all people: the id of a worker is nobody else's business
BAD_WORKER = 'of annotators recorded as bad'
VIOLATION = 'with a recorded violation'


def conversation(
    source: SourceFile, line: int, record: Mapping[str, Any]
) -> Iterator[SourceDialogue]:
    """
    Yield the dialogue of a record of the Conversations format, by any program. Unread
    are the acts of ``context`` that have a text: those among the turns, and those that
    ParlAI's logs hold beside them, under ``context``.

    :raises BadRecord: names the key and the act that is wrong.
    """
    turns: list[SourceTurn] = []
    beside = record.get(CONTEXT)
    contexts = (
        [act for act in beside if isinstance(act, dict)]
        if isinstance(beside, list)
        else []
    )
    acts = []
    for exchange in list_value(record, 'dialog'):
        if not isinstance(exchange, list):
            raise BadRecord("'dialog' is a list of lists of acts")
        acts += exchange
    inside = 0
    for number, act in enumerate(acts, 1):
        speaker = text_value(act, 'id', f'act {number}').strip()
        if speaker == CONTEXT:
            contexts.append(act)
            inside += bool(turns and act.get('text'))
        else:
            text = text_value(act, 'text', f'act {number}')
            turns.append(SourceTurn(speaker, text, line, act.get('given') is True))
    unread = Unread({CONTEXT: sum(bool(act.get('text')) for act in contexts)}, inside)
    name = id_value(record)
    yield SourceDialogue(source.file, line, tuple(turns), name, unread=unread)


def _logged_conversation(
    source: SourceFile, line: int, record: Mapping[str, Any]
) -> Iterator[SourceDialogue]:
    """
    Yield the dialogue of a record, with what the metadata of its file say of it.
    """
    [dialogue] = conversation(source, line, record)
    if source.metadata.get('self_chat'):
        two_systems = len(_models(source.metadata)) > 1
        opt, turns = source.metadata['opt'], dialogue.turns
        # by `SelfChatWorld.get_openers`, though it has the name of the first system
        if any(opt.get(f'seed_messages_from_{place}') for place in ('file', 'task')):
            turns = (*(replace(turn, given=True) for turn in turns[:1]), *turns[1:])
        dialogue = replace(
            dialogue, turns=turns, self_chat=not two_systems, two_systems=two_systems
        )
    yield dialogue


def read_dialogues(path: str | Path, option: str) -> list[Dialogue]:
    """
    Return the dialogues of a file; one without an id is called by its line, from 1.

    :param option: what messages say before the path.
    :raises UserError: names file, line and key of the first mistake.
    """
    dialogues: dict[str, Dialogue] = {}
    source = SourceFile.from_path(Path(path), called=f'{option} ')
    for one in dialogues_of_records(source, conversation):
        if one.problems:
            raise UserError(f'{option} {one.problems[0]}')
        name = one.id or str(one.line)
        if name in dialogues:
            problem = f"'dialogue_id': {name!r} is there already"
            raise UserError(f'{option} {path}:{one.line}: {problem}')
        utterances = (Utterance(t.speaker, t.text, t.given) for t in one.turns)
        dialogues[name] = Dialogue(name, '', '', tuple(utterances))
    if not dialogues:
        raise UserError(f'{option} {path}: no dialogue in it')
    return list(dialogues.values())


def self_chat_model(source: SourceFile) -> str | None:
    """
    Return the model file that talks to itself in this file, as its metadata says; both
    of them where it talks to another one.
    """
    try:
        about = source.metadata
    except BadRecord:
        return None
    return (about.get('self_chat') and ' and '.join(_models(about))) or None


def _models(about: Mapping[str, Any]) -> list[str]:
    """
    Return the model files of a self-chat: one, or two where ParlAI's `self_chat` was
    given a partner that is another model, or has other options.
    """
    opt = about['opt']
    own, partner = opt.get('model_file'), opt.get('partner_model_file')
    if partner and opt.get('partner_opt_file'):
        partner = f'{partner} with {opt["partner_opt_file"]}'
    return list(dict.fromkeys(str(name) for name in (own, partner) if name))


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


def _chat_dialogue(
    source: SourceFile, line: int, record: Mapping[str, Any]
) -> Iterator[SourceDialogue]:
    """
    Yield the chat of a record. One that quality control left out is a bad row.
    """
    chat = Chat.from_record(record)
    if chat.rejected:
        raise BadRecord(f'a chat {chat.rejected}')
    turns = tuple(
        SourceTurn(
            (HUMAN, chat.system)[turn['agent_idx']],
            text_value(turn, 'text', f'dialog[{place}]'),
            line,
            given=turn.get('fake_start') is True,
        )
        for place, turn in enumerate(chat.turns)
    )
    name, people = chat.id or source.stem, frozenset({HUMAN})
    unread = Unread({'persona': sum(map(bool, record.get('personas') or ()))})
    yield SourceDialogue(source.file, line, turns, name, people, unread=unread)


def _texts(record: Mapping[str, Any], key: str) -> list[str]:
    """
    Return a list of texts; a missing key is an empty one, `None` in it an empty text.
    """
    values = record.get(key) or []
    if not isinstance(values, list):
        raise BadRecord(f'{key!r} is a list, not {brief(values)}')
    return ['' if value is None else str(value) for value in values]


CONVERSATIONS = record_format(
    '{"dialog": [[{"id": "NAME", "text": "Hi!"}, …], …]}',
    ('dialog',),
    _logged_conversation,
    self_chats=True,
)
MODEL_CHAT = record_format(
    '{"dialog": [{"agent_idx": 0, "text": "Hi!"}, …], "task_description": …}',
    ('dialog', 'task_description'),
    _chat_dialogue,
)
