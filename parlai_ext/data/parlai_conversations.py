"""
ParlAI's Conversations: one dialogue a line, ``.metadata`` beside the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from parlai_ext.data.json_lines import (
    Misshapen,
    first_record,
    id_of,
    list_of,
    records,
    text_of,
)
from parlai_ext.data.source_dialogue import Source, Talk, Turn

CONTEXT = 'context'  # whom ParlAI names as the speaker of personas and the like


def looks_like(source: Source) -> bool:
    """
    Tell whether the first record has ``dialog``.
    """
    return 'dialog' in first_record(source)


def read(source: Source) -> Iterator[Talk]:
    """
    Yield the dialogues; what `context` says is nobody's turn.
    """
    about = metadata(source)
    if isinstance(about, Misshapen):
        yield source.not_talk(1, str(about))
        return
    for number, record in records(source):
        try:
            if isinstance(record, Misshapen):
                raise record
            yield _talk(source, number, record, bool(about.get('self_chat')))
        except Misshapen as error:
            yield source.not_talk(number, str(error))


def metadata(source: Source) -> Mapping[str, Any] | Misshapen:
    """
    Return what lies beside the file; nothing when there is no such file.
    """
    data = source.beside('.metadata')
    if data is None:
        return {}
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Misshapen('its .metadata is no JSON object; mend or remove that file')
    return found


def judged_model(source: Source) -> str | None:
    """
    Return the model file that spoke with itself in this file, as its metadata says.
    """
    about = metadata(source)
    if isinstance(about, Misshapen) or not about.get('self_chat'):
        return None
    opt = about.get('opt')
    return (
        str(opt['model_file'])
        if isinstance(opt, dict) and opt.get('model_file')
        else None
    )


def _talk(
    source: Source, number: int, record: Mapping[str, Any], self_chat: bool
) -> Talk:
    acts = []
    for exchange in list_of(record, 'dialog'):
        if not isinstance(exchange, list):
            raise Misshapen("'dialog' is a list of lists of acts")
        acts += exchange
    turns = []
    for place, act in enumerate(acts, 1):
        speaker = text_of(act, 'id', f'act {place}').strip()
        if speaker == CONTEXT:
            continue
        text = text_of(act, 'text', f'act {place}')
        turns.append(Turn(speaker, text, number, act.get('given') is True))
    return Talk(source.file, number, tuple(turns), id_of(record), self_chat=self_chat)
