"""
Which dimension of a scorer is compared with which quality that people judged.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from parlai_ext.core.nouns import mean
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
    Yield a pair for every dimension that people judged too, and for each quality that
    is left, with the scorer's main score (`main_score`).

    Where the main score is the mean of all dimensions, the set's overall quality is
    also compared with the mean of those that people judged.
    """
    qualities = {quality.lower(): quality for quality in human}
    qualities = {**judged_set.dimension_names, **qualities}
    matched: dict[str, float | None] = {}
    compared = set()
    for name, score in scores.items():
        quality = qualities.get(name.lower())
        if quality is not None and quality in human:
            matched[name] = score
            compared.add(quality)
            same = quality.lower().startswith(name.lower())
            label = quality if same else f'{name} ~ {quality}'
            yield QualityPair(label, quality, score, human[quality])
    main = main_dimension(scores, judged_set)
    score = main_score(scores, main)
    for quality, value in human.items():
        if quality in compared:
            continue
        if quality != judged_set.overall or main != MEAN_ALL:
            yield QualityPair(f'{main} ~ {quality}', quality, score, value)
            continue
        yield QualityPair(f'{quality}, {MEAN_ALL}', quality, score, value)
        if matched:
            of_level = mean(list(matched.values()))
            yield QualityPair(f'{quality}, {MEAN_LEVEL}', quality, of_level, value)


def main_dimension(dimensions: Iterable[str], judged_set: JudgedSet) -> str:
    """
    Return the dimension whose score judges an item as a whole, or `MEAN_ALL`: the mean
    of all dimensions does.
    """
    names = {name.lower(): name for name in dimensions}
    for wanted in ((judged_set.overall or OVERALL).lower(), OVERALL):
        if wanted in names:
            return names[wanted]
    return next(iter(names.values())) if len(names) == 1 else MEAN_ALL


def main_score(scores: Mapping[str, float | None], main: str) -> float | None:
    """
    Return the score of an item in its `main_dimension`.
    """
    return mean(list(scores.values())) if main == MEAN_ALL else scores.get(main)
