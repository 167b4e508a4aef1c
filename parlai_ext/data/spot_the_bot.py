"""
Spot The Bot's sampled dialogues: one a line, who is human said beside it.

Speakers are called by their type, as in the turns. What generation left in the texts
(``< /s >``, ``<pad>``) stays unless it is asked away.
"""

from __future__ import annotations

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


def looks_like(source: Source) -> bool:
    """
    Tell whether the first record has ``convo``.
    """
    return 'convo' in first_record(source)


def read(source: Source) -> Iterator[Talk]:
    """
    Yield the dialogues of bots and those of people.
    """
    for number, record in records(source):
        try:
            if isinstance(record, Misshapen):
                raise record
            yield _talk(source, number, record)
        except Misshapen as error:
            yield source.not_talk(number, str(error))


def _talk(source: Source, number: int, record: Mapping[str, Any]) -> Talk:
    sides = [text_of(record, f'system_type{side}', 'the record') for side in (0, 1)]
    humans = {
        name for side, name in enumerate(sides) if record.get(f'is_human{side}') is True
    }
    turns = [
        Turn(
            text_of(act, 'id', f'turn {place}').strip(),
            text_of(act, 'text', f'turn {place}'),
            number,
        )
        for place, act in enumerate(list_of(record, 'convo'), 1)
    ]
    return Talk(
        source.file,
        number,
        tuple(turns),
        id_of(record, '_id'),
        frozenset(humans),
        self_chat=sides[0] == sides[1],
    )
