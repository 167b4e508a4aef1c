"""
Dialogues that exist already, as people's chats with systems: ParlAI's Conversations.

    {"dialogue_id": "chat-7", "dialog": [[{"id": "human", "text": "Hi!"},
                                          {"id": "some-bot", "text": "Hello."}]]}

One line a dialogue. ``id`` is who speaks. Without a ``dialogue_id`` the number of the
line, from 1, is it. A run's own shards are such files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.files.text_file import read_utf8


def read_dialogues(path: str | Path) -> list[Dialogue]:
    """
    Return the dialogues of a file, in its order.

    :raises UserError: names file, line and key of the first thing that is wrong.
    """
    text = read_utf8(path, '--dialogues-file ')
    found: dict[str, Dialogue] = {}
    for number, line in enumerate(text.split('\n'), 1):
        if not line.strip():
            continue
        where = f'--dialogues-file {path}:{number}'
        one = dialogue_of(line, str(number), where)
        if one.id in found:
            raise UserError(f'{where}: key dialogue_id: {one.id!r} is there already')
        found[one.id] = one
    if not found:
        raise UserError(f'--dialogues-file {path}: no dialogue in it')
    return list(found.values())


def dialogue_of(line: str, name: str, where: str) -> Dialogue:
    """
    Return the dialogue of a line.

    :param name: its id when it has none.
    """
    try:
        raw = json.loads(line)
    except ValueError as e:
        raise UserError(f'{where}: not JSON: {e}') from None
    if not isinstance(raw, dict):
        raise UserError(f'{where}: an object is expected, not {line!r:.40}')
    pairs = raw.get('dialog')
    if not isinstance(pairs, list) or not all(isinstance(p, list) for p in pairs):
        raise UserError(f'{where}: key dialog: a list of lists of acts is expected')
    return Dialogue(
        id=str(raw.get('dialogue_id', name)),
        pairing_id=str(raw.get('pairing_id', '')),
        opener_id=str(raw.get('opener_id', '')),
        utterances=tuple(utterance_of(act, where) for pair in pairs for act in pair),
        ended_by=raw.get('ended_by'),
        reason=raw.get('reason'),
    )


def utterance_of(act: Any, where: str) -> Utterance:
    """
    Return one act of a dialogue.
    """
    if not isinstance(act, dict):
        raise UserError(f'{where}: key dialog: an act is expected, not {act!r:.40}')
    for key in ('id', 'text'):
        if not isinstance(act.get(key), str):
            raise UserError(f'{where}: key dialog: an act without a text {key!r}')
    return Utterance(act['id'], act['text'], bool(act.get('given')))
