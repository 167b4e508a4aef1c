"""
Turns that brought a penalty or a bonus, and the earlier turn that is the reason.

A scorer whose evidence has one of these columns names turns, counted from 0, in it.
What counts is the turn's score on the dimension: a turn that does not count has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Kind:
    """
    A column of the evidence, the dimension it is behind, and how to say it.
    """

    dimension: str
    bonus: bool
    words: str


KINDS = {
    'repeats_turn': Kind('diversity', False, 'repeats turn {turn}'),
    'contradicts_turn': Kind(
        'consistency', False, 'answers otherwise than turn {turn}: a contradiction'
    ),
    'recalls_turn': Kind(
        'relevance', True, 'recalls a concept of turn {turn}, {distance} turns later'
    ),
}
NO_TURN = {'repeats_turn': 'is empty, which counts as a repetition'}


def marks(
    place: int,
    scores: Mapping[str, float | str],
    labels: Sequence[str],
    evidence: Sequence[float | None],
) -> list[dict[str, Any]]:
    """
    Return what a turn's scores have it marked for.

    :param scores: its values (or reasons why there is none) by dimension.
    """
    found = []
    for label, turn in zip(labels, evidence, strict=False):
        kind = KINDS.get(label)
        value = scores.get(kind.dimension) if kind else None
        if kind is None or not isinstance(value, int | float) or not value:
            continue
        mark = {'bonus': kind.bonus, 'dimension': kind.dimension, 'turn': None}
        if turn is not None:
            earlier = int(turn)
            words = kind.words.format(turn=earlier, distance=place - earlier)
            found.append({**mark, 'turn': earlier, 'words': words})
        elif label in NO_TURN:
            found.append({**mark, 'words': NO_TURN[label]})
    return found


def numeric(labels: Sequence[str]) -> list[int]:
    """
    Return the places of the columns that are numbers to compare, not turns.
    """
    return [i for i, label in enumerate(labels) if label not in KINDS]
