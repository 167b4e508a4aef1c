"""
Correlations as ParlAI metrics: pairs are gathered, the coefficient is worked out last.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from parlai.core.metrics import Metric, SumMetric

from parlai_ext.ranking.agreement import Correlation, correlate_items

Pairs = tuple[tuple[float, float, int], ...]
BOUNDS = {'': 'value', '_low': 'low', '_high': 'high'}
FOUND = {
    coefficient + ending: (coefficient, bound)
    for coefficient in ('spearman', 'pearson')
    for ending, bound in BOUNDS.items()
}


class Agreement(Metric):
    """
    One number of the agreement of gathered pairs; `defined` says whether there is one.
    """

    __slots__ = ('name', 'pairs')
    macro_average = False

    def __init__(self, name: str, pairs: Pairs = ()):
        self.name = name
        self.pairs = pairs

    def __add__(self, other: Any) -> Agreement:
        if other is None:
            return self
        return type(self)(self.name, self.pairs + other.pairs)

    def found(self) -> float | None:
        """
        Return the number, or `None`.
        """
        coefficient, bound = FOUND[self.name]
        value: float | None = getattr(agreement(self.pairs)[coefficient], bound)
        return value

    def value(self) -> float:
        """
        Return the number; one that does not exist is no number (and left out before).
        """
        found = self.found()
        return float('nan') if found is None else found


@lru_cache(maxsize=64)
def agreement(pairs: Pairs) -> dict[str, Correlation]:
    """
    Correlate pairs once for all six numbers.
    """
    scores, human, groups = zip(*pairs, strict=True) if pairs else ((), (), ())
    return correlate_items(scores, human, groups=groups)


def metrics(
    name: str, score: float | None, human: float | None, strings: int, group: int
) -> dict[str, Metric]:
    """
    Return the metrics of one item: a row ``name`` in ParlAI's table.

    `dropped` counts items without a score or a human value, `strings` the answers in
    words.

    :param group: the dialogue that the item is of.
    """
    missing = score is None or human is None
    pairs: Pairs = ()
    if score is not None and human is not None:
        pairs = ((score, human, group),)
    found: dict[str, Metric] = {what: Agreement(what, pairs) for what in FOUND}
    found['n'] = SumMetric(int(not missing))
    found['dropped'] = SumMetric(int(missing))
    found['strings'] = SumMetric(strings)
    return {f'{name}/{what}': metric for what, metric in found.items()}


def defined(report: dict[str, Any]) -> dict[str, Any]:
    """
    Return a report without the numbers that do not exist.
    """
    return {
        key: metric
        for key, metric in report.items()
        if not isinstance(metric, Agreement) or metric.found() is not None
    }
