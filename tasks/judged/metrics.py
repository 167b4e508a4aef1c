"""
Correlations as ParlAI metrics: points are collected, the coefficient comes at the end.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from statistics import fmean
from typing import NamedTuple

from parlai.core.metrics import Metric, SumMetric

from parlai_ext.core import grouped
from parlai_ext.ranking.agreement import Correlation, correlate_items
from parlai_ext.tasks.items_teacher import PointsMetric

COEFFICIENTS = ('pearson', 'spearman', 'kendall')

NUMBERS = {
    coefficient + ending: (coefficient, bound)
    for coefficient in COEFFICIENTS
    for ending, bound in {'': 'value', '_low': 'low', '_high': 'high'}.items()
}
# level -> what is added to the name of a row
ROWS = {'item': '', 'dialogue': ', dialogues', 'system': ', systems'}


class Point(NamedTuple):
    """
    A score and the mean human value of one item.

    :param item: its number in the set.
    :param group: items of a group are drawn together.
    :param dialogue: the item's dialogue, where the set says so.
    """

    judged_set: str
    item: int
    system: str
    dialogue: str
    group: int
    score: float
    human: float


class CorrelationMetric(PointsMetric):
    """
    One number of the agreement of collected points: a coefficient or an end of its
    interval.

    Points of several sets are not pooled: the value is the mean over the sets, without
    an interval.

    :param name: one of `NUMBERS`, or ``n``: how many are compared.
    :param level: a key of `ROWS`: what is compared.
    """

    __slots__ = ()

    def number(self) -> float | None:
        """
        Return the number, or `None` when it does not exist.
        """
        of_sets = correlations(self.points, self.level)
        if self.name == 'n':
            return sum(one['pearson'].n for one in of_sets)
        coefficient, bound = NUMBERS[self.name]
        if bound != 'value' and len(of_sets) > 1:
            return None
        numbers = [getattr(one[coefficient], bound) for one in of_sets]
        known = [number for number in numbers if number is not None]
        return fmean(known) if known else None


@lru_cache(maxsize=64)
def correlations(
    points: tuple[Point, ...], level: str
) -> tuple[dict[str, Correlation], ...]:
    """
    Return the correlations over the items, dialogues or systems of each set; all
    numbers of a row are worked out once.
    """
    by_set = groupby(points, key=lambda point: point.judged_set)
    found = []
    for some in [list(of_set) for _, of_set in by_set] or [[]]:
        scores: list[float] = [point.score for point in some]
        human = [point.human for point in some]
        groups = [point.group for point in some]
        systems = None
        if level == 'system' and some:
            systems = [point.system for point in some]
        elif level == 'dialogue':
            by_dialogue = grouped(((one.system, one.dialogue), one) for one in some)
            of_dialogues = list(by_dialogue.values())
            scores = [fmean(point.score for point in same) for same in of_dialogues]
            human = [fmean(point.human for point in same) for same in of_dialogues]
            groups = [same[0].group for same in of_dialogues]
        one_set = correlate_items(
            scores, human, groups=groups, systems=systems, coefficients=COEFFICIENTS
        )
        found.append(one_set)
    return tuple(found)


def metrics(
    name: str, points: Sequence[Point], texts: int, levels: Sequence[str] = ('item',)
) -> dict[str, Metric]:
    """
    Return the metrics of one item: a row ``name`` in ParlAI's table, and a row for each
    further level.

    `dropped` counts items without a score or a human value, `strings` the answers in
    words.

    :param points: the item's point, or nothing if it lacks a score or a human value.
    """
    rows = {}
    for level in levels:
        row = name + ROWS[level]
        for number in ('n', *NUMBERS):
            rows[f'{row}/{number}'] = CorrelationMetric(number, level, points)
    rows[f'{name}/n'] = SumMetric(len(points))
    rows[f'{name}/dropped'] = SumMetric(1 - len(points))
    rows[f'{name}/strings'] = SumMetric(texts)
    return rows
