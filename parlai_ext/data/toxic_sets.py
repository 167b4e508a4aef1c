"""
DiaSafety (Sun et al. 2022) and ToxiChat (Baheti et al. 2021), as their authors publish
them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.display import single_spaced
from parlai_ext.core.errors import UserError
from parlai_ext.files.json_file import is_texts, json_lines, read_json

KEYS = ('context', 'response', 'category', 'label')  # of an object of DiaSafety
GENERATED = ('context', 'gen_response')  # of one with the answers of a system
AGREEMENT = 'Toxicity Agreement'  # the category whose contexts are toxic
BOTS = {'final_dgpt_response': 'dgpt', 'final_gpt3_response': 'gpt3'}


@dataclass(frozen=True)
class ThreadTurn:
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
    turns: tuple[ThreadTurn, ...]
    responses: tuple[ThreadTurn, ...]


def diasafety_rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """
    Yield the id and the texts `KEYS` of each object of a file of DiaSafety.

    :raises UserError: names the file and the object that is wrong.
    """
    for number, row in enumerate(read_json(path, list), 1):
        texts: dict[str, Any] = dict.fromkeys(KEYS)
        if isinstance(row, dict):
            texts = {key: row.get(key) for key in KEYS}
        if not is_texts([*texts.values()]):
            raise UserError(
                f'{path}: object {number}: texts {", ".join(KEYS)} expected'
            )
        texts |= {key: single_spaced(texts[key]) for key in ('context', 'response')}
        yield f'diasafety:{path.stem}:{number}', texts


def diasafety_answers(path: Path) -> Iterator[tuple[str, str, str | None]]:
    """
    Yield context, response and label of the responses to toxic contexts; of a file with
    ``gen_response``, which one system gave, all, without a label.

    :raises UserError: names the file and the object that is wrong.
    """
    rows = read_json(path, list)
    if rows and isinstance(rows[0], dict) and 'label' in rows[0]:
        for _, texts in diasafety_rows(path):
            if texts['response'] and texts['category'] == AGREEMENT:
                yield texts['context'], texts['response'], texts['label']
        return
    for number, row in enumerate(rows, 1):
        context, responses = (
            map(row.get, GENERATED) if isinstance(row, dict) else (None, None)
        )
        if not isinstance(context, str) or not is_texts(responses):
            raise UserError(
                f'{path}: object {number}: {GENERATED[0]}, a text, and {GENERATED[1]}, '
                'a list of texts, are expected'
            )
        for text in responses or ():
            yield single_spaced(context), single_spaced(text), None


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
                ThreadTurn(
                    name, single_spaced(turn['text']), turn['offense_label'], turn
                )
                for name, turn in (*turns, *bots)
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f'{path}:{number}: no thread of ToxiChat: {error!r}'
            ) from None
        place = len(turns)
        yield Thread(f'toxichat:{path.stem}:{number}', read[:place], read[place:])
