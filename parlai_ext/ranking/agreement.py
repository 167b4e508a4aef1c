"""
How well scores agree with people or with a reference, and annotators among each other:
all correlations are made here.

A point has two sides: a score or rating, and a human or reference value. What a point
is and what is drawn anew for the 95 % percentile interval:

============================== ============================ ===========================
function                       a point is                   drawn anew
============================== ============================ ===========================
`correlate_items`              an utterance or a dialogue   items, or groups of items
                                                            (one context, one dialogue)
the same, with systems         a system's mean over items   items, or groups of items
`correlate_with_reference`     a system's mean score        openers, annotators, systems
`correlate_with_ranks`         a system's rating            nothing
============================== ============================ ===========================

**Undefined values.** A point without one of its sides is left out. A coefficient is
`None`, with a reason, when fewer than three points are left (two with ranks) or all of
one side are equal. A resample of fewer than three different units, or without a
coefficient, is left out; there is no interval, and a reason, when fewer than half of
the resamples remain or when all of them give the same value. Partners are never drawn
anew. With few systems the intervals are rough, and they cannot reach beyond an order
that no resample upsets.

**Many resamples at once.** A resample of items is an array of weights: how often it
holds each point. All resamples share the values and their order, so that nothing is
sorted or compared again for each. Arrays of weights are ``[resample, point]``; the two
sides are ``[point]``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import Any, Literal

import numpy as np
import scipy

from parlai_ext.core import HumanJudgement, frozen, grouped, mean
from parlai_ext.ranking.intervals import (
    FEWEST_OPENERS,
    SAMPLING,
    Bools,
    Draws,
    Estimate,
    Floats,
    Ints,
    Sampling,
    distinct_openers,
    draw_counts,
    draw_groups,
    draw_means,
    json_number,
    known_intervals,
    percentile_ends,
    round_off_noise,
    system_means,
)
from parlai_ext.view import count_of

COLUMNS = 32  # resamples in the processor's cache at once
Places = Ints


def weighted_pearson(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Pearson's r of each resample.
    """
    flat = _is_constant(left, weights) | _is_constant(right, weights)
    # near 0 the sums of squares keep their digits
    a, b = left - left.mean(), right - right.mean()
    total = weights.sum(axis=1)
    mean_a, mean_b = weights @ a / total, weights @ b / total
    products = weights @ (a * b) / total - mean_a * mean_b
    squares_a = weights @ (a * a) / total - mean_a**2
    squares_b = weights @ (b * b) / total - mean_b**2
    return np.where(flat, np.nan, cosine(products, squares_a, squares_b))


def weighted_spearman(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Spearman's rho of each resample, ties at mean ranks.
    """
    middle = (weights.sum(axis=1, keepdims=True) + 1) / 2
    a = weighted_ranks(left, weights) - middle
    b = weighted_ranks(right, weights) - middle
    return cosine(
        (weights * a * b).sum(axis=1),
        (weights * a * a).sum(axis=1),
        (weights * b * b).sum(axis=1),
    )


def weighted_kendall(left: Floats, right: Floats, weights: Floats) -> Floats:
    """
    Return Kendall's tau-b of each resample, in the time of sorting the points.
    """
    a, b = (np.unique(side, return_inverse=True)[1] for side in (left, right))
    levels = [_pair_level(a >> bit, b) for bit in range(int(a.max()).bit_length())]
    taus = [np.zeros(0)]
    for start in range(0, len(weights), COLUMNS):
        columns = np.ascontiguousarray(weights[start : start + COLUMNS].T)
        agree = np.sum([agreement(columns) for agreement in levels], axis=0)
        taus.append(cosine(agree, _untied_pairs(a, columns), _untied_pairs(b, columns)))
    return np.concatenate(taus)


def _pair_level(a: Places, b: Places) -> Callable[[Floats], Floats]:
    """
    Return a function of weights ``[point, resample]``. It returns, for each resample,
    how many pairs of points both sides order alike, less those that they order
    differently: of the pairs whose ranks on the left first differ in the lowest bit of
    ``a``.

    The points of a block agree in all bits above it; those without the bit are lower.
    Both kinds stand in the order of block and rank on the right.
    """
    block, is_upper = a >> 1, a & 1 == 1
    key = block * (int(b.max()) + 1) + b  # block and rank on the right
    order = np.argsort(key, kind='stable')
    lower, upper = order[~is_upper[order]], order[is_upper[order]]
    # places among the lower points, one for each upper point: the begin and the end of
    # those in its block, and of those with the same rank on the right
    block_begin, block_end, tie_begin, tie_end = (
        np.searchsorted(side[lower], side[upper], end)
        for side in (block, key)
        for end in ('left', 'right')
    )

    def agreement(columns: Floats) -> Floats:
        before = np.zeros((len(lower) + 1, columns.shape[1]))
        np.cumsum(columns[lower], axis=0, out=before[1:])
        # lower points before the tie agree, those after it do not
        balance = before[tie_begin] + before[tie_end]
        balance -= before[block_begin]
        balance -= before[block_end]
        balance *= columns[upper]
        return np.asarray(balance.sum(axis=0))

    return agreement


def _untied_pairs(ranks: Places, columns: Floats) -> Floats:
    """
    Return how many pairs of each resample have different ranks.
    """
    order = np.argsort(ranks, kind='stable')
    starts = np.flatnonzero(np.diff(ranks[order], prepend=-1))
    tied = np.add.reduceat(columns[order], starts, axis=0)
    pairs = (columns.sum(axis=0) ** 2 - (tied**2).sum(axis=0)) / 2
    return pairs


def weighted_ranks(side: Floats, weights: Floats) -> Floats:
    """
    Return ``[resample, point]``: the mean rank of each point's value, from 1.
    """
    _, group, sizes = np.unique(side, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind='stable')
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    in_group = np.add.reduceat(weights[:, order], starts, axis=1)
    below = np.cumsum(in_group, axis=1) - in_group
    ranks = (below + (in_group + 1) / 2)[:, group]
    return ranks


def _is_constant(side: Floats, weights: Floats) -> Bools:
    """
    Return, for each resample, whether its points have one value.
    """
    drawn = weights > 0
    high = np.where(drawn, side, -np.inf).max(axis=1)
    low = np.where(drawn, side, np.inf).min(axis=1)
    return np.asarray(high == low)


def cosine(products: Floats, first: Floats, second: Floats) -> Floats:
    """
    Return the cosines of centred vectors from the sum of their products and those of
    their squares; NaN where one of these is 0.
    """
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.clip(products / np.sqrt(first * second), -1.0, 1.0)


WEIGHTED = {
    'pearson': weighted_pearson,
    'spearman': weighted_spearman,
    'kendall': weighted_kendall,
}


FEWEST = 3  # different units in a resample, and points of a correlation
FEWEST_KNOWN = 10  # items behind a coefficient that is shown without an interval
BOOTSTRAPS = 2000
CORRELATION_SAMPLING = Sampling(BOOTSTRAPS, 0)

# the name of a coefficient -> its value in each of some draws
Resample = Callable[[str], Floats]
# annotator -> system -> rank or rating; `None` for a cell that was left empty
AnnotatorRanks = Mapping[str, Mapping[str, float | None]]
# system -> value, or human judgements, whose mean by system is the value
ReferenceValues = Mapping[str, float] | Sequence[HumanJudgement]


@frozen
class Correlation:
    """
    One coefficient over `n` points; `None`, or no interval, for a `reason`.

    `low` and `high` are the ends of its interval. `notes` name the points and resamples
    that were left out.
    """

    value: float | None
    n: int
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def estimate(self) -> Estimate:
        """
        The coefficient with its interval.
        """
        return Estimate(self.value, self.low, self.high)


@frozen
class Points:
    """
    What the points of a correlation and their two sides are called in reasons.
    """

    unit: str
    left: str
    right: str
    fewest: int = FEWEST


ITEMS = Points('items', 'score', 'human value')
MEANS = Points('systems', 'score', 'reference value')
SYSTEM_MEANS = Points('systems', 'mean score', 'mean human value')
RATING_POINTS = Points('systems', 'rating', 'human rank', 2)


def pearson(left: Floats, right: Floats) -> Floats:
    """
    Return Pearson's r of each row; NaN where a side is constant.
    """
    # a rounded mean leaves a little spread of equal numbers: it must not count
    flat = (np.ptp(left, axis=1) == 0) | (np.ptp(right, axis=1) == 0)
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (left, right))
    sums = ((one * other).sum(axis=1) for one, other in ((a, b), (a, a), (b, b)))
    return np.where(flat, np.nan, cosine(*sums))


def spearman(left: Floats, right: Floats) -> Floats:
    """
    Return Spearman's rho of each row, ties at mean ranks; NaN where a side is constant.
    """
    return pearson(*(scipy.stats.rankdata(side, axis=1) for side in (left, right)))


def known_spearman(left: Floats, right: Floats) -> float | None:
    """
    Return Spearman's rho over the places where both sides have a number; `None` where
    these are fewer than ten, or a side is constant.
    """
    both = ~np.isnan(left) & ~np.isnan(right)
    if both.sum() < FEWEST_KNOWN:
        return None
    rho = float(spearman(left[both][None], right[both][None])[0])
    return None if np.isnan(rho) else rho


def kendall(left: Floats, right: Floats) -> Floats:
    """
    Return Kendall's tau-b of each row; NaN where a side is constant.
    """
    sums = np.zeros((3, len(left)))
    for i in range(1, left.shape[1]):
        a, b = (np.sign(side[:, [i]] - side[:, :i]) for side in (left, right))
        sums += [(a * b).sum(axis=1), (a * a).sum(axis=1), (b * b).sum(axis=1)]
    return cosine(*sums)


COEFFICIENTS = {'pearson': pearson, 'spearman': spearman, 'kendall': kendall}
OF_ORDER = ('spearman', 'kendall')


def correlate(
    left: Floats,
    right: Floats,
    points: Points,
    coefficients: Sequence[str],
    resamples: Iterable[Resample] = (),
    bootstraps: int = 0,
) -> dict[str, Correlation]:
    """
    Return each coefficient of two sides ``[point]``, with intervals from resamples.

    :param resamples: not begun when nothing is defined.
    :param bootstraps: how many were drawn (0: no intervals).
    """
    if reason := undefined_reason(left, right, points):
        return {name: Correlation(None, len(left), reason) for name in coefficients}
    draws = {name: [np.zeros(0)] for name in coefficients}
    for coefficients_of_draws in resamples:
        for name in coefficients:
            draws[name].append(coefficients_of_draws(name))
    result = {}
    for name in coefficients:
        value = json_number(COEFFICIENTS[name](left[None], right[None])[0])
        reason = low = high = None
        drawn = np.concatenate(draws[name])
        drawn = drawn[~np.isnan(drawn)]
        if 2 * len(drawn) < bootstraps:
            what = f'most resamples hold too few different {points.unit}'
            reason = f'no interval: {what}'
        elif bootstraps and np.ptp(drawn) < 1e-12:
            what = 'order' if name in OF_ORDER else 'correlation'
            reason = f'no interval: no resample changes the {what}'
        elif bootstraps:
            low, high = map(json_number, percentile_ends(drawn))
        result[name] = Correlation(value, len(left), reason, low, high)
    return result


def _of_rows(left: Floats, right: Floats) -> Iterator[Resample]:
    """
    Yield the coefficients of the rows of two arrays ``[draw, point]``, unless empty.
    """
    if len(left):
        yield lambda name: COEFFICIENTS[name](left, right)


def undefined_reason(left: Floats, right: Floats, points: Points) -> str | None:
    """
    Return why there is no correlation, or `None` when there is one.

    :param points: the words for the points and their two sides.
    """
    if len(left) < points.fewest:
        points_here = count_of(len(left), points.unit.removesuffix('s'))
        verb = 'has' if len(left) == 1 else 'have'
        both = f'a {points.left} and a {points.right}'
        return f'{points_here} {verb} {both}; {points.fewest} are needed'
    for side, side_name in ((left, points.left), (right, points.right)):
        if np.ptp(side) == 0:
            return f'all {points.unit} have the same {side_name}'
    return None


def shared_reason(correlations: Mapping[str, Correlation]) -> str | None:
    """
    Return why a number is `None` in correlations over the same points, if one is.
    """
    reasons = [one.reason for one in correlations.values() if one.reason]
    return reasons[-1] if reasons else None


# ---------------------------------------------------------------- utterances, dialogues


def correlate_items(
    scores: Sequence[float],
    human: Sequence[float],
    sampling: Sampling = CORRELATION_SAMPLING,
    *,
    groups: Sequence[int] | None = None,
    systems: Sequence[str] | None = None,
    coefficients: Sequence[str] = ('spearman', 'pearson'),
) -> dict[str, Correlation]:
    """
    Correlate two numbers of each item, or their means over the items of each system;
    items of a group are drawn together, systems are always all there.

    :param groups: the group of each item, because utterances of one dialogue or over
        one context are alike; `None`: every item is a group of its own.
    :param systems: the system of each item; `None`: single items are correlated.
    """
    both = np.array([scores, human], dtype=np.float64).reshape(2, -1)
    units = range(both.shape[1]) if groups is None else groups
    n, draws = sampling.bootstraps, group_weights(units, sampling)
    left, right = both
    if systems is None:
        resamples = (
            lambda name, weights=weights: WEIGHTED[name](left, right, weights)
            for weights in draws
        )
        return correlate(left, right, ITEMS, coefficients, resamples, n)
    names, column = np.unique(systems, return_inverse=True)
    of_system = np.eye(len(names))[column]
    whole = np.ones((1, both.shape[1]))
    left, right = (_weighted_means(side, whole, of_system)[0] for side in both)

    def of_means() -> Iterator[Resample]:
        for weights in draws:
            a, b = (_weighted_means(side, weights, of_system) for side in both)
            complete = ~np.isnan(a).any(axis=1)
            yield from _of_rows(a[complete], b[complete])

    return correlate(left, right, SYSTEM_MEANS, coefficients, of_means(), n)


def _weighted_means(side: Floats, weights: Floats, of_system: Floats) -> Floats:
    """
    Return ``[resample, system]``: means over the items, NaN for a system without one.

    :param of_system: ``[item, system]``: 1 where the item is of the system, else 0.
    """
    with np.errstate(invalid='ignore'):
        means = ((weights * side) @ of_system) / (weights @ of_system)
    return round_off_noise(means)


def group_weights(groups: Sequence[Hashable], sampling: Sampling) -> Iterator[Floats]:
    """
    Return resamples of items (`draw_groups`) that have `FEWEST` different groups.
    """
    rng = np.random.default_rng([sampling.seed, 3])
    return draw_groups(groups, sampling.bootstraps, rng, FEWEST)


# --------------------------------------------------------------- systems, a reference


def correlate_with_reference(
    values: Floats,
    systems: Sequence[str],
    reference: ReferenceValues,
    sampling: Sampling,
) -> dict[str, Correlation]:
    """
    Correlate the mean scores of systems with a reference.

    Mean scores are correlated, not the ranks of a leaderboard (which tie). A system
    without a score or without a reference value is left out. There is no interval with
    fewer than three distinct openers.

    :param values: ``[system, partner, opener]`` dialogue means, NaN for no score.
    """
    judged = {one if isinstance(one, str) else one.system for one in reference}
    means = system_means(values)
    chosen = [
        i
        for i in np.argsort(systems)
        if systems[i] in judged and not np.isnan(means[i])
    ]
    table, names = values[chosen], [systems[i] for i in chosen]
    means = round_off_noise(means[chosen])
    if isinstance(reference, Mapping):
        panel, target = None, np.array([float(reference[name]) for name in names])
    else:
        panel = AnnotatorPanel(reference, names)
        target = round_off_noise(panel.sums.sum(axis=0) / panel.counts.sum(axis=0))
    seen = np.asarray((~np.isnan(table)).any(axis=0))
    n_openers = int(distinct_openers(seen, sampling.games_per_opener))
    if n_openers >= FEWEST_OPENERS:
        drawn = target if panel is None else panel
        draws = reference_resamples(table, drawn, sampling)
        bootstraps = sampling.bootstraps
        return correlate(means, target, MEANS, OF_ORDER, draws, bootstraps)
    reason = f'no interval: distinct openers: {n_openers}; {FEWEST_OPENERS} are needed'
    found = correlate(means, target, MEANS, OF_ORDER)
    return {n: replace(one, reason=one.reason or reason) for n, one in found.items()}


def reference_resamples(
    table: Floats, reference: AnnotatorPanel | Floats, sampling: Sampling
) -> Iterator[Resample]:
    """
    Yield the coefficients of draws of openers, of annotators where the reference is
    theirs, and of systems; draws of too few different systems are left out.

    :param table: ``[system, partner, opener]`` dialogue means.
    :param reference: annotators, or ``[system]`` values.
    """
    rng = np.random.default_rng([sampling.seed, 2])
    draws = draw_means(table, sampling)
    left = round_off_noise(draws.means + draws.fixed)
    if isinstance(reference, AnnotatorPanel):
        right = round_off_noise(reference.draw(sampling.bootstraps, rng))
    else:
        right = np.broadcast_to(reference, left.shape)
    chosen = rng.integers(left.shape[1], size=left.shape)
    left, right = (np.take_along_axis(side, chosen, 1) for side in (left, right))
    different = 1 + (np.diff(np.sort(chosen), axis=1) > 0).sum(axis=1)
    usable = (different >= FEWEST) & ~np.isnan(left + right).any(axis=1)
    yield from _of_rows(left[usable], right[usable])


class AnnotatorPanel:
    """
    For each annotator and system the `sums` and the `counts` of judgements of some
    systems.

    Both arrays are ``[annotator, system]``. A judgement without an annotator counts as
    an annotator of its own. Annotators who saw several systems are drawn together, so
    that one draw moves all of these; those who saw one system are drawn within it, so
    that no draw leaves it without a judgement.
    """

    def __init__(self, judgements: Sequence[HumanJudgement], systems: Sequence[str]):
        column = {name: i for i, name in enumerate(systems)}
        used = [j for j in judgements if j.system in column]
        # sorted, so that the order of the rows in a file changes nothing
        used.sort(key=lambda j: (j.system, j.rater or '', j.value))
        units = [
            (j.rater is None, j.rater or f'{row:09}') for row, j in enumerate(used)
        ]
        row_of = {unit: row for row, unit in enumerate(sorted(set(units)))}
        places = [row_of[unit] for unit in units], [column[j.system] for j in used]
        self.sums, self.counts = np.zeros((2, len(row_of), len(systems)))
        np.add.at(self.sums, places, [j.value for j in used])
        np.add.at(self.counts, places, 1)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """
        Return ``[draw, system]`` means of annotators drawn with replacement.
        """
        seen = (self.counts > 0).sum(axis=1)
        stratum = np.where(seen > 1, -1, self.counts.argmax(axis=1))
        weights = np.zeros((draws, len(seen)))
        for s in range(-1, self.counts.shape[1]):
            units = np.flatnonzero(stratum == s)
            weights[:, units] = draw_counts(len(units), draws, rng)
        with np.errstate(invalid='ignore'):
            return (weights @ self.sums) / (weights @ self.counts)


# ----------------------------------------------------------------- ratings, human ranks


def correlate_with_ranks(
    values: Mapping[str, float | None],
    ranks: Mapping[str, float | None],
    coefficient: str = 'kendall',
) -> Correlation:
    """
    Correlate values of systems (larger is better) with human ranks (1 is best).

    Systems that lack either are left out, and named in the notes.
    """
    names = sorted(values)
    left, right = (
        np.array([side.get(name) for name in names], np.float64)
        for side in (values, ranks)
    )
    unranked = np.isnan(right)
    unrated = np.isnan(left) & ~unranked
    notes = tuple(
        f'{what}: {", ".join(compress(names, lacking))}'
        for what, lacking in (('no human rank', unranked), ('no rating', unrated))
        if lacking.any()
    )
    there = ~(unranked | unrated)
    sides = round_off_noise(left[there]), round_off_noise(-right[there])
    return replace(
        correlate(*sides, RATING_POINTS, [coefficient])[coefficient], notes=notes
    )


def mean_ranks(annotators: AnnotatorRanks) -> dict[str, float | None]:
    """
    Return each system's mean over the annotators who ranked it.
    """
    given = grouped(pair for ranks in annotators.values() for pair in ranks.items())
    return {
        name: mean([rank for rank in given[name] if rank is not None])
        for name in sorted(given)
    }


# --------------------------------------------------------- annotators among each other
# How well annotators agree: Fleiss' kappa, Krippendorff's alpha, and random halves.
#
# Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin
# 76(5), 1971: the share of pairs of annotators who agree on a unit, against the share
# that would agree if all drew from the same answers. Where units have different numbers
# of annotators, each unit counts once.
#
# Krippendorff's alpha is evalica's (Apache-2.0): 1 is perfect agreement, 0 is chance.
# Krippendorff, "Computing Krippendorff's Alpha-Reliability", 2011.
#
# Random halves are Sato et al. (2022), footnote 4: the annotators are divided at random
# into two groups, and Spearman's coefficient of the groups' means is computed. One
# division says little, so the mean and the spread of many are returned.

Level = Literal['nominal', 'ordinal', 'interval', 'ratio']
Annotations = Mapping[Any, Mapping[str, float]]  # unit -> annotator -> value
DIVISIONS = 1000
MOST_MEANS = 2**19  # of points, in some divisions at a time
NORMAL = 1.4826  # standard deviation of a normal distribution, in such medians


@frozen
class AnnotatorAgreement:
    """
    How well annotators agree, or the reason why that is not known: Fleiss' kappa and
    Krippendorff's alpha over units with two or more annotations, or the mean
    correlation of halves over points, which are its units. Alpha has no 95 % interval.

    :param level: of alpha, which answers count as near: ``nominal`` (none),
        ``ordinal``, …
    """

    value: float | None
    num_units: int
    num_annotators: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    level: str | None = None


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
    groups: Mapping[Any, Any] | None = None,
    sampling: Sampling = SAMPLING,
) -> AnnotatorAgreement:
    """
    Return Fleiss' kappa of annotations: unit -> annotator -> value.

    :param groups: the group of each unit: units of a group, such as those about one
        prompt, are drawn together for the interval. Without it each unit is one.
    """
    shared, sizes, reason = _shared(annotations)
    if reason:
        return AnnotatorAgreement(None, *sizes, reason=reason)
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
    counted = np.array([len(set(own))]), np.array([sizes[1]])
    resampled = Draws(value, deviations, deviations, *counted)
    [ends] = known_intervals(resampled)
    return AnnotatorAgreement(float(value[0]), *sizes, *ends)


def _shared(
    annotations: Annotations,
) -> tuple[Annotations, tuple[int, int], str | None]:
    """
    Return the units of two annotators or more, the numbers of these and of their
    annotators, and why nothing can be said of their agreement.
    """
    shared = {unit: given for unit, given in annotations.items() if len(given) > 1}
    annotators = {name for given in shared.values() for name in given}
    reason = None
    if not shared:
        reason = 'no unit has annotations of two annotators'
    elif len({value for given in shared.values() for value in given.values()}) < 2:
        reason = 'all annotations are equal'
    return shared, (len(shared), len(annotators)), reason


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


def krippendorff_alpha(
    annotations: Annotations, level: Level = 'nominal'
) -> AnnotatorAgreement:
    """
    Return Krippendorff's alpha of annotations: unit -> annotator -> value.
    """
    shared, sizes, reason = _shared(annotations)
    if reason:
        return AnnotatorAgreement(None, *sizes, reason=reason, level=level)
    import pandas as pd
    from evalica import alpha

    # alpha does not ask whose values of a unit they are, so that each unit's stand in
    # the first rows: a table with a row for each annotator may be nearly empty
    most = max(map(len, shared.values()))
    rows = [
        [*given.values(), *[None] * (most - len(given))] for given in shared.values()
    ]
    value = alpha(pd.DataFrame(rows, dtype=float).T, distance=level).alpha
    return AnnotatorAgreement(float(value), *sizes, level=level)


def agreement_of_halves(
    annotations: Annotations,
    points: Mapping[Any, Any],
    seed: int = 0,
) -> AnnotatorAgreement:
    """
    Return how well random halves of the annotators agree on the means of points.

    A half's mean of a point is over its annotations of the point's units. A point that
    one of the halves did not annotate is left out of that division.

    :param annotations: unit -> annotator -> value.
    :param points: the point, such as a system, of each unit.
    """
    import pandas as pd

    rows = [
        (points[unit], *one) for unit, own in annotations.items() for one in own.items()
    ]
    given = pd.DataFrame(rows, columns=['point', 'annotator', 'value'])
    sizes = given['point'].nunique(), given['annotator'].nunique()
    if sizes[1] < 2:
        reason = f'{sizes[1]} annotator; halves need two or more'
        return AnnotatorAgreement(None, *sizes, reason=reason)
    # in the order of their names
    places = given.groupby('point').ngroup(), given.groupby('annotator').ngroup()
    sums, counts = (
        scipy.sparse.csr_array((data, places), shape=sizes)
        for data in (given['value'].to_numpy(float), np.ones(len(given)))
    )
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((DIVISIONS, sizes[1])), axis=1)
    in_first = order < sizes[1] // 2
    correlations = _half_correlations(sums, counts, in_first)
    if not len(correlations):
        reason = f'no division leaves {FEWEST} points that differ in both halves'
        return AnnotatorAgreement(None, *sizes, reason=reason)
    average, ends = float(np.mean(correlations)), percentile_ends(correlations)
    return AnnotatorAgreement(average, *sizes, *ends)


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
        whole = there.all(axis=1) & (there.shape[1] >= FEWEST)
        values += [spearman(first[whole], second[whole])] if whole.any() else []
        for k in np.flatnonzero(~whole & (there.sum(axis=1) >= FEWEST)):
            points = there[k]
            values.append(spearman(first[[k]][:, points], second[[k]][:, points]))
    every = np.concatenate(values)
    return np.asarray(every[~np.isnan(every)])
