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
OVERALL = 'overall'


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
    Yield a pair for every dimension that people judged too, for the set's overall
    quality, and for each quality that is left.

    If the scorer has no dimension with the name of the set's overall quality, two means
    of its dimensions are compared with that quality: of all dimensions, and of those
    that people judged. A quality that no dimension stands for is compared with the
    scorer's main score: its dimension called like the overall quality, or ``Overall``,
    else the mean of all dimensions.
    """
    qualities = {quality.lower(): quality for quality in human}
    qualities = {**judged_set.dimension_names, **qualities}
    matched = []
    compared = {overall := judged_set.overall}
    for name, score in scores.items():
        quality = qualities.get(name.lower())
        if quality is not None and quality in human:
            matched.append(score)
            compared.add(quality)
            same = quality.lower().startswith(name.lower())
            label = quality if same else f'{name} ~ {quality}'
            yield QualityPair(label, quality, score, human[quality])
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
    main, score = main_score(scores, judged_set)
    for quality, value in human.items():
        if quality not in compared:
            yield QualityPair(f'{main} ~ {quality}', quality, score, value)


def main_score(
    scores: Mapping[str, float | None], judged_set: JudgedSet
) -> tuple[str, float | None]:
    """
    Return the name and the value of the score that judges an item as a whole.
    """
    names = {name.lower(): name for name in scores}
    for wanted in ((judged_set.overall or OVERALL).lower(), OVERALL):
        if wanted in names:
            return names[wanted], scores[names[wanted]]
    if len(scores) == 1:
        [(name, value)] = scores.items()
        return name, value
    return MEAN_ALL, mean(list(scores.values()))


def mean(values: Sequence[float | None]) -> float | None:
    """
    Return the mean; `None` when there is nothing, or something has no value.
    """
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    return math.fsum(numbers) / len(numbers)
