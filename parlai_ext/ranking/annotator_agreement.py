"""
How well annotators agree with each other: Krippendorff's alpha, and random halves.

Krippendorff's alpha is evalica's (Apache-2.0): 1 is perfect agreement, 0 is chance.
Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.

Random halves are Sato et al. (2022), footnote 4: the annotators are divided at random
into two groups, and Spearman's coefficient of the groups' means is computed. One
division says little, so the mean and the spread of many are returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parlai_ext.ranking.agreement import spearman
from parlai_ext.ranking.table import Floats

Level = Literal['nominal', 'ordinal', 'interval', 'ratio']
Annotations = Mapping[Any, Mapping[str, float]]  # unit -> annotator -> value
Points = Mapping[Any, Any]  # the point of each unit
FEWEST_POINTS = 3
DIVISIONS = 1000


@dataclass(frozen=True)
class Alpha:
    """
    Krippendorff's alpha, or `None` with a reason.

    :param level: which answers count as near: ``nominal`` (none), ``ordinal``, …
    :param num_units: units with two or more annotations; the others say nothing.
    """

    value: float | None
    level: str
    num_units: int
    num_annotators: int
    reason: str | None = None


@dataclass(frozen=True)
class HalfAgreement:
    """
    Spearman's coefficient between two random halves of the annotators.

    :param value: the mean over the divisions; `None` with a reason.
    :param low, high: between them are 95 % of the divisions. They are no confidence
        interval: all divisions are of the same annotators.
    :param num_points: the points that are correlated, such as systems.
    """

    value: float | None
    num_points: int
    num_annotators: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def krippendorff_alpha(annotations: Annotations, level: Level = 'nominal') -> Alpha:
    """
    Return Krippendorff's alpha of annotations: unit -> annotator -> value.
    """
    shared = {unit: given for unit, given in annotations.items() if len(given) > 1}
    annotators = sorted({name for given in shared.values() for name in given})
    reason = None
    if not shared:
        reason = 'no unit has annotations of two annotators'
    elif len({value for given in shared.values() for value in given.values()}) < 2:
        reason = 'all annotations are equal'
    if reason:
        return Alpha(None, level, len(shared), len(annotators), reason)
    import pandas as pd
    from evalica import alpha

    rows = [[given.get(name) for given in shared.values()] for name in annotators]
    frame = pd.DataFrame(rows, index=annotators, dtype=float)
    value = alpha(frame, distance=level).alpha
    return Alpha(float(value), level, len(shared), len(annotators))


def agreement_of_halves(
    annotations: Annotations,
    points: Points,
    divisions: int = DIVISIONS,
    seed: int = 0,
) -> HalfAgreement:
    """
    Return how well random halves of the annotators agree on the means of points.

    A half's mean of a point is over its annotations of the point's units. A point that
    one of the halves did not annotate is left out of that division.

    :param annotations: unit -> annotator -> value.
    :param points: the point, such as a system, of each unit.
    """
    annotators = sorted({name for given in annotations.values() for name in given})
    names = sorted({points[unit] for unit in annotations}, key=str)
    if len(annotators) < 2:
        reason = f'{len(annotators)} annotator; halves need two or more'
        return HalfAgreement(None, len(names), len(annotators), reason=reason)
    sums, counts = _sums_by_annotator(annotations, points, annotators, names)
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((divisions, len(annotators))), axis=1)
    in_first = order < len(annotators) // 2
    values = _half_correlations(sums, counts, in_first)
    if not values:
        reason = f'no division leaves {FEWEST_POINTS} points that differ in both halves'
        return HalfAgreement(None, len(names), len(annotators), reason=reason)
    low, high = np.quantile(values, [0.025, 0.975])
    mean = float(np.mean(values))
    return HalfAgreement(mean, len(names), len(annotators), float(low), float(high))


def _sums_by_annotator(
    annotations: Annotations,
    points: Points,
    annotators: Sequence[str],
    names: Sequence[Any],
) -> tuple[Floats, Floats]:
    """
    Return ``[annotator, point]`` sums and numbers of annotations.
    """
    row = {name: i for i, name in enumerate(annotators)}
    column = {name: i for i, name in enumerate(names)}
    sums = np.zeros((len(row), len(column)))
    counts = np.zeros_like(sums)
    for unit, given in annotations.items():
        for annotator, value in given.items():
            cell = row[annotator], column[points[unit]]
            sums[cell] += value
            counts[cell] += 1
    return sums, counts


def _half_correlations(
    sums: Floats, counts: Floats, in_first: NDArray[np.bool_]
) -> list[float]:
    """
    Return Spearman's coefficient of the means of both halves, for each division that
    has one.

    :param in_first: ``[division, annotator]``: true for those of the first half.
    """
    with np.errstate(invalid='ignore'):
        first, second = (
            np.round((half @ sums) / (half @ counts), 12)
            for half in (in_first.astype(float), np.logical_not(in_first).astype(float))
        )
    there = ~np.isnan(first) & ~np.isnan(second)
    whole = there.all(axis=1) & (there.shape[1] >= FEWEST_POINTS)
    values = [spearman(first[whole], second[whole])] if whole.any() else []
    for k in np.flatnonzero(~whole & (there.sum(axis=1) >= FEWEST_POINTS)):
        points = there[k]
        values.append(spearman(first[[k]][:, points], second[[k]][:, points]))
    every = np.concatenate([np.zeros(0), *values])
    return list(map(float, every[~np.isnan(every)]))
