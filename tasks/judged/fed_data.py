"""
The judgements of Mehri and Eskenazi (2020), read from the user's ``fed_data.json``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError

WHERE = 'fed_data.json of Mehri and Eskenazi (2020), http://shikib.com/fed_data.json'
SPEAKERS = ('User: ', 'System: ')


@dataclass(frozen=True)
class Judged:
    """
    A turn or a dialogue with the mean of what people said of it, by quality.

    `human` holds `None` where nobody gave a number; `strings` counts the answers in
    words ("N/A (no errors)"), which are no part of a mean.
    """

    utterances: tuple[str, ...]
    system: str
    human: Mapping[str, float | None]
    strings: Mapping[str, int] = field(default_factory=dict)


def read_fed_data(path: str | Path | None) -> tuple[list[Judged], list[Judged]]:
    """
    Return the judged turns and the judged dialogues of a file, in its order.

    A turn is the last utterance, after its context; a dialogue is judged as a whole.

    :raises UserError: for a file that is not there or not of this shape.
    """
    if not path:
        raise UserError(f'--judged-file is needed: {WHERE}')
    try:
        data = json.loads(Path(path).read_bytes())
    except OSError as e:
        raise UserError(f'--judged-file {path}: {e.strerror}; it is {WHERE}') from None
    except ValueError as e:
        raise UserError(f'--judged-file {path}: not JSON: {e}') from None
    if not isinstance(data, list):
        raise UserError(f'--judged-file {path}: a list of objects is expected; {WHERE}')
    turns: list[Judged] = []
    dialogues: list[Judged] = []
    for i, raw in enumerate(data):
        one = judged(raw, f'--judged-file {path}: object {i + 1}')
        (turns if 'response' in raw else dialogues).append(one)
    return turns, dialogues


def dialogues_of(turns: Sequence[Judged]) -> list[int]:
    """
    Return a number for each turn, the same for turns of one dialogue.

    Such turns begin alike: one, its context included, is the beginning of the next.
    """
    found = [0] * len(turns)
    root: tuple[str, ...] | None = None
    number = -1
    # in this order a beginning comes right before all that goes on from it
    for place in sorted(range(len(turns)), key=lambda i: turns[i].utterances):
        said = turns[place].utterances
        if root is None or said[: len(root)] != root:
            root, number = said, number + 1
        found[place] = number
    return found


def judged(raw: Any, where: str) -> Judged:
    """
    Return one object of the file.
    """
    if not isinstance(raw, dict):
        raise UserError(f'{where}: an object is expected, not {raw!r:.40}')
    keys = ('context', 'response') if 'response' in raw else ('context',)
    for key in keys:
        if not isinstance(raw.get(key), str):
            raise UserError(f'{where}: key {key}: a text is expected')
    said = [raw[key] for key in keys]
    answers = raw.get('annotations')
    if not isinstance(answers, dict):
        raise UserError(f'{where}: key annotations: qualities with lists are expected')
    for quality, own in answers.items():
        if not isinstance(own, list):
            raise UserError(f'{where}: key annotations: {quality}: a list is expected')
    numbers = {q: [a for a in own if is_number(a)] for q, own in answers.items()}
    return Judged(
        tuple(without_speaker(line) for text in said for line in text.split('\n')),
        str(raw.get('system')),
        {q: math.fsum(own) / len(own) if own else None for q, own in numbers.items()},
        {q: len(own) - len(numbers[q]) for q, own in answers.items()},
    )


def is_number(answer: Any) -> bool:
    """
    Return whether an answer is a number that can be averaged.
    """
    return (
        isinstance(answer, int | float)
        and not isinstance(answer, bool)
        and math.isfinite(answer)
    )


def without_speaker(line: str) -> str:
    """
    Return what was said, without who said it.
    """
    for speaker in SPEAKERS:
        if line.startswith(speaker):
            return line.removeprefix(speaker)
    return line
