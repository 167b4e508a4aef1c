"""
Which dimension of a scorer is compared with which quality that people judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from parlai_ext.data.judged.judged_set import JudgedSet

MEAN_ALL = 'mean of all'
MEAN_LEVEL = 'mean of level'


class QualityPair(NamedTuple):
    """
    A score and the mean human value of one quality of an item.

    `name` is the row of the pair in ParlAI's table.
    """

    name: str
    quality: str
    score: float | None
    human: float | None


def quality_pairs(
    scores: Mapping[str, float | None],
    human: Mapping[str, float | None],
    judged_set: JudgedSet,
) -> Iterator[QualityPair]:
    """
    Yield a pair for every dimension that people judged too.

    If the scorer has no dimension with the name of the set's overall quality, two means
    of its dimensions are compared with that quality: of all dimensions, and of those
    that people judged.

    A scorer without a dimension called like the set's overall quality is compared with
    that by the mean of all its dimensions, and of those that people judged.
    """
    qualities = {quality.lower(): quality for quality in human}
    qualities = {**judged_set.dimension_names, **qualities}
    matched = []
    for name, score in scores.items():
        quality = qualities.get(name.lower())
        if quality is not None and quality in human:
            matched.append(score)
            same = quality.lower().startswith(name.lower())
            label = quality if same else f'{name} ~ {quality}'
            yield QualityPair(label, quality, score, human[quality])
    overall = judged_set.overall
    if (
        overall
        and overall in human
        and overall.lower() not in {name.lower() for name in scores}
    ):
        means = {MEAN_ALL: list(scores.values())}
        if matched:
            means[MEAN_LEVEL] = matched
        for label, values in means.items():
            row = f'{overall}, {label}'
            yield QualityPair(row, overall, mean(values), human[overall])


def mean(values: Sequence[float | None]) -> float | None:
    """
    Return the mean; `None` when there is nothing, or something has no value.
    """
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    return math.fsum(numbers) / len(numbers)
