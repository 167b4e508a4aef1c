"""
DiaSafety (Sun et al. 2022) and ToxiChat (Baheti et al. 2021), as their authors publish
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.display import single_spaced
from parlai_ext.core.errors import UserError
from parlai_ext.data.text_lines import json_lines
from parlai_ext.files.json_file import read_json

KEYS = ('context', 'response', 'category', 'label')  # of an object of DiaSafety
BOTS = {'final_dgpt_response': 'dgpt', 'final_gpt3_response': 'gpt3'}


@dataclass(frozen=True)
class Turn:
    """
    A turn of a thread, or a bot's response to the last one.

    :param about: all that the file says of it.
    """

    speaker: str
    text: str
    label: str
    about: Mapping[str, Any]


@dataclass(frozen=True)
class Thread:
    """
    A thread of ToxiChat: the turns of people, and a response of each bot to the last.
    """

    id: str
    turns: tuple[Turn, ...]
    responses: tuple[Turn, ...]


def diasafety_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Yield the id and the texts `KEYS` of each object of a file of DiaSafety.

    :raises UserError: names the file and the object that is wrong.
    """
    for number, row in enumerate(read_json(path, list), 1):
        is_object = isinstance(row, dict)
        texts: dict[str, Any] = {key: row.get(key) for key in KEYS} if is_object else {}
        if not texts or not all(isinstance(text, str) for text in texts.values()):
            raise UserError(
                f'{path}: object {number}: texts {", ".join(KEYS)} expected'
            )
        texts |= {key: single_spaced(texts[key]) for key in ('context', 'response')}
        yield f'diasafety:{path.stem}:{number}', texts


def toxichat_threads(path: Path) -> Iterator[Thread]:
    """
    Yield the threads of a file of ToxiChat.

    :raises UserError: names the file and the line that is wrong.
    """
    for number, row in json_lines(path):
        try:
            turns = [('human', turn) for turn in row['reddit_thread']]
            bots = [(bot, row[key]) for key, bot in BOTS.items() if key in row]
            read = tuple(
                Turn(name, single_spaced(turn['text']), turn['offense_label'], turn)
                for name, turn in (*turns, *bots)
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f'{path}:{number}: no thread of ToxiChat: {error!r}'
            ) from None
        place = len(turns)
        yield Thread(f'toxichat:{path.stem}:{number}', read[:place], read[place:])
