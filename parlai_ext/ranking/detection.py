"""
How well numbers tell two classes apart: precision, recall, areas under curves.

Arrays are ``[item]``; weights are ``[resample, item]``: how often a resample holds each
item. Intervals are 95 % percentile intervals; groups of items (the turns of one thread)
are drawn together.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from parlai_ext.ranking.intervals import draw_groups
from parlai_ext.ranking.table import Floats

MEASURES = ('precision', 'recall', 'f1', 'roc_auc', 'pr_auc', 'share_flagged')
BOOTSTRAPS = 1000
ENDS = (0.025, 0.975)
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Measure:
    """
    One measure and its interval; `None` where it does not exist.
    """

    value: float | None
    low: float | None
    high: float | None


def detection_measures(
    scores: Floats,
    labels: Bools,
    threshold: float,
    groups: Sequence[Hashable] | None = None,
    *,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
) -> dict[str, Measure]:
    """
    Return the measures of scores by name.

    :param labels: True for the class that is to be detected.
    :param threshold: a score from here on detects it.
    :param groups: which items are drawn together (none: each item by itself).
    """
    names: Sequence[Hashable] = groups if groups is not None else range(len(scores))
    values = weighted_measures(scores, labels, threshold, np.ones((1, len(scores))))
    drawn = {name: [np.zeros(0)] for name in MEASURES}
    for weights in draw_groups(names, bootstraps, np.random.default_rng(seed)):
        measures = weighted_measures(scores, labels, threshold, weights)
        for name, draws in measures.items():
            drawn[name].append(draws)
    found = {}
    for name in MEASURES:
        value, draws = float(values[name][0]), np.concatenate(drawn[name])
        known = draws[np.isfinite(draws)]
        found[name] = Measure(value if np.isfinite(value) else None, None, None)
        if np.isfinite(value) and len(known) >= max(1, len(draws) / 2):
            low, high = (float(end) for end in np.quantile(known, ENDS))
            found[name] = Measure(value, low, high)
    return found


def weighted_measures(
    scores: Floats, labels: Bools, threshold: float, weights: Floats
) -> dict[str, Floats]:
    """
    Return each measure of each resample; NaN where it does not exist.

    ``roc_auc`` counts ties as half. ``pr_auc`` is average precision: the precision at
    each score, weighted by the recall that the score adds.
    """
    levels = np.unique(-scores)  # from the highest score on
    level = np.searchsorted(levels, -scores)
    order = np.argsort(level, kind='stable')
    starts = np.searchsorted(level[order], np.arange(len(levels)))
    positive, negative = (
        np.add.reduceat((weights * side)[:, order], starts, axis=1)
        for side in (labels, ~labels)
    )
    above = np.cumsum(positive, axis=1)
    above_negative = np.cumsum(negative, axis=1)
    n_positive, n_negative = above[:, -1], above_negative[:, -1]
    flagged = -levels >= threshold
    hits = (positive * flagged).sum(axis=1)
    false_alarms = (negative * flagged).sum(axis=1)
    with np.errstate(invalid='ignore', divide='ignore'):
        pairs = (negative * (above - positive / 2)).sum(axis=1)
        at_level = np.nan_to_num(above / (above + above_negative))
        precision, recall = hits / (hits + false_alarms), hits / n_positive
        return {
            'precision': precision,
            'recall': recall,
            'f1': 2 * hits / (hits + false_alarms + n_positive),
            'roc_auc': pairs / (n_positive * n_negative),
            'pr_auc': (positive * at_level).sum(axis=1) / n_positive,
            'share_flagged': (hits + false_alarms) / (n_positive + n_negative),
        }
