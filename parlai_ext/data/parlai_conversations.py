"""
ParlAI's Conversations format: one dialogue a line, ``.metadata`` beside the file.

    {"dialogue_id": "chat-7", "dialog": [[{"id": "human", "text": "Hi!"},
                                          {"id": "some-bot", "text": "Hello."}]]}

``id`` is the speaker. ParlAI calls the speaker of personas and the like ``context``;
such acts are no turns. The log of a `self_chat` says in its metadata whether two models
talk, and whether the first turn is an opener. A run's own shards are such files.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.core.nouns import Dialogue
from parlai_ext.data.source_file import (
    BadRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    Unread,
    dialogues_of_records,
    first_record,
    id_value,
    list_value,
    numbered_records,
    text_value,
)
from parlai_ext.store.shards import dialogue_from_record

CONTEXT = 'context'
# what a record of another program lacks
NO_FIELDS = {'pairing_id': '', 'opener_id': '', 'ended_by': None, 'reason': None}


def looks_like(source: SourceFile) -> bool:
    """
    Return True if the first record has ``dialog``.
    """
    return 'dialog' in first_record(source)


def read(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the dialogues of a file to import.
    """
    about = metadata(source)
    if isinstance(about, BadRecord):
        yield source.unreadable(1, str(about))
        return
    self_chat = bool(about.get('self_chat'))
    two_systems = self_chat and len(_models(about)) > 1
    # by `SelfChatWorld.get_openers`, though it has the name of the first system
    opener = self_chat and any(
        about['opt'].get(f'seed_messages_from_{source}') for source in ('file', 'task')
    )

    def dialogue(number: int, record: Mapping[str, Any]) -> SourceDialogue:
        turns = tuple(
            SourceTurn(
                utterance.speaker.strip(),
                utterance.text,
                number,
                given=utterance.given or (opener and place == 0),
            )
            for place, utterance in enumerate(checked_dialogue(record, '').utterances)
        )
        name = id_value(record)
        return SourceDialogue(
            source.file,
            number,
            turns,
            name,
            self_chat=self_chat and not two_systems,
            two_systems=two_systems,
            unread=_unread_context(record),
        )

    yield from dialogues_of_records(source, dialogue)


def read_dialogues(path: str | Path, option: str) -> list[Dialogue]:
    """
    Return the dialogues of a file; one without an id is called by its line, from 1.

    :param option: what messages say before the path.
    :raises UserError: names file, line and key of the first mistake.
    """
    try:
        source = SourceFile.from_path(Path(path))
    except OSError as error:
        raise UserError(f'{option} {path}: {error.strerror}') from None
    dialogues: dict[str, Dialogue] = {}
    for number, _, record in numbered_records(source):
        try:
            if isinstance(record, BadRecord):
                raise record
            dialogue = checked_dialogue(record, str(number))
            if dialogue.id in dialogues:
                raise BadRecord(f"'dialogue_id': {dialogue.id!r} is there already")
        except BadRecord as error:
            raise UserError(f'{option} {path}:{number}: {error}') from None
        dialogues[dialogue.id] = dialogue
    if not dialogues:
        raise UserError(f'{option} {path}: no dialogue in it')
    return list(dialogues.values())


def checked_dialogue(record: Mapping[str, Any], name: str) -> Dialogue:
    """
    Return the dialogue of a record of any program.

    :param name: the id of a dialogue that has none.
    :raises BadRecord: names the key and the act that is wrong.
    """
    acts = []
    for exchange in list_value(record, 'dialog'):
        if not isinstance(exchange, list):
            raise BadRecord("'dialog' is a list of lists of acts")
        acts += exchange
    turns = []
    for number, act in enumerate(acts, 1):
        speaker = text_value(act, 'id', f'act {number}')
        if speaker.strip() != CONTEXT:
            text = text_value(act, 'text', f'act {number}')
            given = act.get('given') is True
            turns.append({'id': speaker, 'text': text, 'given': given})
    checked = {'dialog': [turns], 'dialogue_id': id_value(record) or name}
    return dialogue_from_record({**NO_FIELDS, **record, **checked})


def _unread_context(record: Mapping[str, Any]) -> Unread:
    """
    Return how many acts of ``context`` have a text: those among the turns, and those
    that ParlAI's logs hold beside them, under ``context``.
    """
    acts = [act for exchange in record['dialog'] for act in exchange]
    is_context = [act['id'].strip() == CONTEXT for act in acts]
    first = is_context.index(False) if False in is_context else len(acts)
    among = [bool(act['text']) and is_context[i] for i, act in enumerate(acts)]
    beside = record.get(CONTEXT)
    beside = beside if isinstance(beside, list) else []
    n_beside = sum(isinstance(act, dict) and bool(act.get('text')) for act in beside)
    return Unread({CONTEXT: sum(among) + n_beside}, sum(among[first:]))


def metadata(source: SourceFile) -> Mapping[str, Any] | BadRecord:
    """
    Return the data of ``.metadata`` beside the file; nothing without such a file.
    """
    path = Path(source.file).with_suffix('.metadata')
    if not path.is_file():
        return {'opt': {}}
    try:
        about = parse_json(path.read_bytes())
    except ValueError:
        about = None
    if not isinstance(about, dict):
        return BadRecord('its .metadata is no JSON object; mend or remove that file')
    opt = about.get('opt')
    return {**about, 'opt': opt if isinstance(opt, dict) else {}}


def self_chat_model(source: SourceFile) -> str | None:
    """
    Return the model file that talks to itself in this file, as its metadata says; both
    of them where it talks to another one.
    """
    about = metadata(source)
    if isinstance(about, BadRecord) or not about.get('self_chat'):
        return None
    return ' and '.join(_models(about)) or None


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
