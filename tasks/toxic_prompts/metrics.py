"""
Measures of answers as ParlAI metrics: values are collected, means over prompts and
their intervals come at the end.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from parlai.core.metrics import Metric

from parlai_ext.ranking.detection import Measure
from parlai_ext.tasks.judged.metrics import PointsMetric
from parlai_ext.toxic.comparison import collected_bleu, collected_mean
from parlai_ext.toxic.measures import BLEU, MeasuredAnswer

SHARE, MEAN, CORPUS = 'share', 'mean', 'corpus'
NUMBERS = {'mean': 'value', 'low': 'low', 'high': 'high'}


class Point(NamedTuple):
    """
    What an answer to a prompt adds: the value of a measure, or the counts of BLEU.
    """

    prompt: str
    values: tuple[float, ...]


class AnswerMetric(PointsMetric):
    """
    The mean of a measure over prompts, an end of its interval, or ``prompts``: how many
    there are.

    Prompts of several tasks are pooled. The level says what the values are: a share, a
    mean, or BLEU's counts, whose number is of all answers together.
    """

    __slots__ = ()

    def number(self) -> float | None:
        """
        Return the number, or `None` when it does not exist.
        """
        measure, n = measured(self.points, self.level)
        number = n if self.name == 'prompts' else getattr(measure, NUMBERS[self.name])
        return None if number is None else float(number)


@lru_cache(maxsize=64)
def measured(points: tuple[Point, ...], level: str) -> tuple[Measure, int]:
    """
    Return the measure of collected values, and how many prompts they are of.
    """
    by_prompt: dict[str, list[tuple[float, ...]]] = {}
    for point in points:
        by_prompt.setdefault(point.prompt, []).append(point.values)
    rows = list(by_prompt.values())
    if level == CORPUS:
        return collected_bleu(rows), len(rows)
    return collected_mean(rows, shares=level == SHARE), len(rows)


def answer_metrics(
    prompt: str, one: MeasuredAnswer, shares: Sequence[str]
) -> Mapping[str, Metric]:
    """
    Return the metrics of one answer: a row of ParlAI's table for each measure.

    :param shares: the measures that are 0 or 1.
    """
    rows: dict[str, Metric] = {}
    values: dict[str, tuple[float, ...]] = {
        name: (value,) for name, value in one.values.items() if value is not None
    }
    if one.bleu:
        values[BLEU] = one.bleu
    for name, of_answer in values.items():
        level = SHARE if name in shares else CORPUS if name == BLEU else MEAN
        for number in (*NUMBERS, 'prompts'):
            points = [Point(prompt, tuple(map(float, of_answer)))]
            rows[f'{name}/{number}'] = AnswerMetric(number, level, points)
    return rows
