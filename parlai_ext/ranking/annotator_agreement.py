"""
How well annotators agree: Fleiss' kappa, Krippendorff's alpha, and random halves.

Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin
76(5), 1971: the share of pairs of annotators who agree on a unit, against the share
that would agree if all drew from the same answers. Where units have different numbers
of annotators, each unit counts once.

Krippendorff's alpha is evalica's (Apache-2.0): 1 is perfect agreement, 0 is chance.
Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.

Random halves are Sato et al. (2022), footnote 4: the annotators are divided at random
into two groups, and Spearman's coefficient of the groups' means is computed. One
division says little, so the mean and the spread of many are returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy

from parlai_ext.core import frozen
from parlai_ext.ranking.agreement import spearman
from parlai_ext.ranking.intervals import (
    SAMPLING,
    Bools,
    Draws,
    Floats,
    Sampling,
    draw_groups,
    intervals_for,
    percentile_ends,
)

Level = Literal['nominal', 'ordinal', 'interval', 'ratio']
Annotations = Mapping[Any, Mapping[str, float]]  # unit -> annotator -> value
Points = Mapping[Any, Any]  # the point of each unit
FEWEST_POINTS = 3
DIVISIONS = 1000
MOST_MEANS = 2**19  # of points, in some divisions at a time
NORMAL = 1.4826  # standard deviation of a normal distribution, in such medians


@frozen
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


@frozen
class AnnotatorAgreement:
    """
    How well annotators agree, with its 95 % interval, or the reason why that is not
    known: Fleiss' kappa over units, or the mean correlation of halves over points,
    which are its units.
    """

    value: float | None
    num_units: int
    num_annotators: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def near_median(values: Sequence[float], deviations: float) -> list[bool]:
    """
    Return which values are at most so many deviations from their median. A deviation is
    1.4826 times the median of the absolute ones (Leys et al. 2013).

    With 1 this is the filter of Zhao et al. (2020), ``mark_outliers.py``, whose
    annotation DSTC10 Track 5 repeated.
    """
    if not values:
        return []
    gaps = np.abs(np.array(values) - np.median(values))
    return [bool(one) for one in gaps <= deviations * NORMAL * np.median(gaps)]


def fleiss_kappa(
    annotations: Annotations,
    groups: Points | None = None,
    sampling: Sampling = SAMPLING,
) -> AnnotatorAgreement:
    """
    Return Fleiss' kappa of annotations: unit -> annotator -> value.

    :param groups: the group of each unit: units of a group, such as those about one
        prompt, are drawn together for the interval. Without it each unit is one.
    """
    shared, annotators, reason = _shared(annotations)
    if reason:
        return AnnotatorAgreement(None, len(shared), len(annotators), reason=reason)
    values = sorted({value for given in shared.values() for value in given.values()})
    counts = np.array(
        [[list(given.values()).count(v) for v in values] for given in shared.values()]
    )
    totals = counts.sum(axis=1)
    agreeing = (counts * (counts - 1)).sum(axis=1) / (totals * (totals - 1))
    columns = np.column_stack([np.ones(len(counts)), agreeing, counts])
    own = list(shared) if groups is None else [str(groups[unit]) for unit in shared]
    rng = np.random.default_rng(sampling.seed)
    resamples = draw_groups(own, sampling.bootstraps, rng)
    drawn = np.concatenate([weights @ columns for weights in resamples])
    value = _kappas(columns.sum(axis=0)[None])
    deviations = (_kappas(drawn) - value)[:, None]
    sizes = np.array([len(set(own))]), np.array([len(annotators)])
    resampled = Draws(value, deviations, deviations, *sizes)
    (interval,) = intervals_for(resampled, 'fixed')
    low, high = (None if np.isnan(end) else end for end in interval)
    return AnnotatorAgreement(float(value[0]), len(shared), len(annotators), low, high)


def _shared(annotations: Annotations) -> tuple[Annotations, set[str], str | None]:
    """
    Return the units of two annotators or more, these annotators, and why nothing can be
    said of their agreement.
    """
    shared = {unit: given for unit, given in annotations.items() if len(given) > 1}
    annotators = {name for given in shared.values() for name in given}
    reason = None
    if not shared:
        reason = 'no unit has annotations of two annotators'
    elif len({value for given in shared.values() for value in given.values()}) < 2:
        reason = 'all annotations are equal'
    return shared, annotators, reason


def _kappas(sums: Floats) -> Floats:
    """
    Return a kappa for each row: the number of units, the sum of their shares of
    agreeing pairs, and how often each value was given. NaN where only one value was.
    """
    shares = sums[:, 2:] / sums[:, 2:].sum(axis=1, keepdims=True)
    chance = (shares**2).sum(axis=1)
    certain = np.isclose(chance, 1.0)
    observed = sums[:, 1] / sums[:, 0]
    expected = np.where(certain, 0.0, chance)
    return np.where(certain, np.nan, (observed - expected) / (1 - expected))


def krippendorff_alpha(annotations: Annotations, level: Level = 'nominal') -> Alpha:
    """
    Return Krippendorff's alpha of annotations: unit -> annotator -> value.
    """
    shared, annotators, reason = _shared(annotations)
    if reason:
        return Alpha(None, level, len(shared), len(annotators), reason)
    import pandas as pd
    from evalica import alpha

    # alpha does not ask whose values of a unit they are, so that each unit's stand in
    # the first rows: a table with a row for each annotator may be nearly empty
    most = max(map(len, shared.values()))
    rows = [
        [*given.values(), *[None] * (most - len(given))] for given in shared.values()
    ]
    value = alpha(pd.DataFrame(rows, dtype=float).T, distance=level).alpha
    return Alpha(float(value), level, len(shared), len(annotators))


def agreement_of_halves(
    annotations: Annotations,
    points: Points,
    seed: int = 0,
) -> AnnotatorAgreement:
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
        return AnnotatorAgreement(None, len(names), len(annotators), reason=reason)
    row, column = ({name: i for i, name in enumerate(n)} for n in (names, annotators))
    sizes = [len(given) for given in annotations.values()]
    places = (
        np.repeat([row[points[unit]] for unit in annotations], sizes),
        [column[name] for given in annotations.values() for name in given],
    )
    values = [value for given in annotations.values() for value in given.values()]
    sums, counts = (
        scipy.sparse.csr_array((data, places), shape=(len(row), len(column)))
        for data in (np.array(values, float), np.ones(len(values)))
    )
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((DIVISIONS, len(annotators))), axis=1)
    in_first = order < len(annotators) // 2
    correlations = _half_correlations(sums, counts, in_first)
    if not len(correlations):
        reason = f'no division leaves {FEWEST_POINTS} points that differ in both halves'
        return AnnotatorAgreement(None, len(names), len(annotators), reason=reason)
    mean, ends = float(np.mean(correlations)), percentile_ends(correlations)
    return AnnotatorAgreement(mean, len(names), len(annotators), *ends)


def _half_correlations(
    sums: scipy.sparse.csr_array,
    counts: scipy.sparse.csr_array,
    in_first: Bools,
) -> Floats:
    """
    Return Spearman's coefficient of the means of both halves, for each division that
    has one.

    :param in_first: ``[division, annotator]``: true for those of the first half.
    """
    chunk = max(1, MOST_MEANS // sums.shape[0])
    values = [np.zeros(0)]
    for start in range(0, len(in_first), chunk):
        halves = in_first[start : start + chunk]
        with np.errstate(invalid='ignore'):
            first, second = (
                np.round((sums @ half.T) / (counts @ half.T), 12).T
                for half in (halves.astype(float), np.logical_not(halves).astype(float))
            )
        there = ~np.isnan(first) & ~np.isnan(second)
        whole = there.all(axis=1) & (there.shape[1] >= FEWEST_POINTS)
        values += [spearman(first[whole], second[whole])] if whole.any() else []
        for k in np.flatnonzero(~whole & (there.sum(axis=1) >= FEWEST_POINTS)):
            points = there[k]
            values.append(spearman(first[[k]][:, points], second[[k]][:, points]))
    every = np.concatenate(values)
    return np.asarray(every[~np.isnan(every)])
