"""
Spot The Bot's sampled dialogues: one a line, with which of the sides are people.

Speakers are called by their type, as in the turns. What generation left in the texts
(``< /s >``, ``<pad>``) stays unless ``--strip-markers`` is given.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from parlai_ext.data.source_file import (
    SourceDialogue,
    SourceFile,
    SourceTurn,
    dialogues_of_records,
    first_record,
    id_value,
    list_value,
    text_value,
)


def looks_like(source: SourceFile) -> bool:
    """
    Return True if the first record has ``convo``.
    """
    return 'convo' in first_record(source)


def read(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the dialogues of bots and those of people.
    """

    def dialogue(number: int, record: Mapping[str, Any]) -> SourceDialogue:
        sides = [text_value(record, f'system_type{k}', 'the record') for k in (0, 1)]
        humans = {
            name for k, name in enumerate(sides) if record.get(f'is_human{k}') is True
        }
        turns = tuple(
            SourceTurn(
                text_value(act, 'id', f'turn {turn_number}').strip(),
                text_value(act, 'text', f'turn {turn_number}'),
                number,
            )
            for turn_number, act in enumerate(list_value(record, 'convo'), 1)
        )
        return SourceDialogue(
            source.file,
            number,
            turns,
            id_value(record, '_id'),
            frozenset(humans),
            self_chat=sides[0] == sides[1],
            sides=tuple(sides),
        )

    yield from dialogues_of_records(source, dialogue)
