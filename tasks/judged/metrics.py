"""
Correlations as ParlAI metrics: pairs are collected, the coefficient comes at the end.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from parlai.core.metrics import Metric, SumMetric

from parlai_ext.ranking.agreement import Correlation, correlate_items

Pairs = tuple[tuple[float, float, int], ...]
BOUNDS = {'': 'value', '_low': 'low', '_high': 'high'}
NUMBERS = {
    coefficient + ending: (coefficient, bound)
    for coefficient in ('spearman', 'pearson')
    for ending, bound in BOUNDS.items()
}


class CorrelationMetric(Metric):
    """
    One number of the agreement of collected pairs: a coefficient or an end of its
    interval.
    """

    __slots__ = ('name', 'pairs')
    macro_average = False

    def __init__(self, name: str, pairs: Pairs = ()):
        self.name = name
        self.pairs = pairs

    def __add__(self, other: Any) -> CorrelationMetric:
        if other is None:
            return self
        return type(self)(self.name, self.pairs + other.pairs)

    def number(self) -> float | None:
        """
        Return the number, or `None` when it does not exist.
        """
        coefficient, bound = NUMBERS[self.name]
        value: float | None = getattr(correlations(self.pairs)[coefficient], bound)
        return value

    def value(self) -> float:
        """
        Return the number as ParlAI wants it: NaN when it does not exist.
        """
        number = self.number()
        return float('nan') if number is None else number


@lru_cache(maxsize=64)
def correlations(pairs: Pairs) -> dict[str, Correlation]:
    """
    Return the correlations of pairs; all six numbers are worked out once.
    """
    scores, human, groups = zip(*pairs, strict=True) if pairs else ((), (), ())
    return correlate_items(scores, human, groups=groups)


def metrics(
    name: str, score: float | None, human: float | None, texts: int, group: int
) -> dict[str, Metric]:
    """
    Return the metrics of one item: a row ``name`` in ParlAI's table.

    `dropped` counts items without a score or a human value, `strings` the answers in
    words.

    :param group: the number of the items that are drawn together.
    """
    pairs: Pairs = ()
    if score is not None and human is not None:
        pairs = ((score, human, group),)
    row: dict[str, Metric] = {
        number: CorrelationMetric(number, pairs) for number in NUMBERS
    }
    row['n'] = SumMetric(len(pairs))
    row['dropped'] = SumMetric(1 - len(pairs))
    row['strings'] = SumMetric(texts)
    return {f'{name}/{number}': metric for number, metric in row.items()}


def without_undefined(report: dict[str, Any]) -> dict[str, Any]:
    """
    Return a report without the correlations that are undefined.
    """
    return {
        key: metric
        for key, metric in report.items()
        if not isinstance(metric, CorrelationMetric) or metric.number() is not None
    }
