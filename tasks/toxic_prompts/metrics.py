"""
Measures of answers as ParlAI metrics: values are collected, means over prompts and
their intervals come at the end.
"""

from functools import lru_cache
from typing import NamedTuple

import pandas as pd

from parlai_ext.ranking.detection import prompt_means
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.tasks.items_teacher import PointsMetric
from parlai_ext.toxic.comparison import bleu_values

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
def measured(points: tuple[Point, ...], level: str) -> tuple[Estimate, int]:
    """
    Return the measure of collected values, and how many prompts they are of.
    """
    values = pd.Series([p.values for p in points], [p.prompt for p in points])
    if level == CORPUS:
        means = bleu_values(values)
    else:
        means = values.str[0].groupby(level=0, sort=False).mean()
    [measure] = prompt_means(means.to_numpy()[None], shares=level == SHARE)
    return measure, len(means)


def answer_metrics(
    prompt: str, level: str, values: tuple[float, ...]
) -> dict[str, AnswerMetric]:
    """
    Return the metrics of what an answer adds to a measure, by the name of the number.
    """
    points = [Point(prompt, values)]
    return {n: AnswerMetric(n, level, points) for n in (*NUMBERS, 'prompts')}
