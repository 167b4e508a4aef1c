"""
Which of a scorer's dimensions stands for which quality that people judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

# dimensions that are called otherwise than what people were asked, by level
CALLED = {
    'turn': {
        'fluency': 'Fluent',
        'specificity': 'Specific',
        'sensibleness': 'Semantically appropriate',
    },
    'dialogue': {'understand': 'Understanding', 'sensibleness': 'Coherent'},
}
OVERALL = 'Overall'
MEAN_ALL = 'Overall, mean of all'
MEAN_LEVEL = 'Overall, mean of level'


class Pair(NamedTuple):
    """
    What a scorer and people said of one quality of an item; `name` is the pair's row.
    """

    name: str
    quality: str
    score: float | None
    human: float | None


def pairs(
    scores: Mapping[str, float | None], human: Mapping[str, float | None], level: str
) -> Iterator[Pair]:
    """
    Yield a pair for every dimension that people judged too.

    A scorer without a dimension of that name is held against `OVERALL` with the mean of
    all its dimensions, and of those that people judged at this level.
    """
    asked = {quality.lower(): quality for quality in human}
    matched = []
    for name, score in scores.items():
        quality = asked.get(name.lower()) or CALLED[level].get(name.lower())
        if quality is not None and quality in human:
            matched.append(score)
            same = quality.lower().startswith(name.lower())
            label = quality if same else f'{name} ~ {quality}'
            yield Pair(label, quality, score, human[quality])
    if OVERALL in human and OVERALL.lower() not in {name.lower() for name in scores}:
        for label, some in ((MEAN_ALL, list(scores.values())), (MEAN_LEVEL, matched)):
            yield Pair(label, OVERALL, mean(some), human[OVERALL])


def mean(values: Sequence[float | None]) -> float | None:
    """
    Return the mean; `None` when there is nothing, or something has no value.
    """
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return math.fsum(known) / len(known)
