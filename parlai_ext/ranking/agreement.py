"""
How well scores agree with people or with a reference: all correlations are made here.

A point has two sides: a score or rating, and a human or reference value. What a point
is and what is drawn anew for the 95 % percentile interval:

============================== ============================ ===========================
function                       a point is                   drawn anew
============================== ============================ ===========================
`correlate_items`              an utterance or a dialogue   items, or groups of items
                                                            (one context, one dialogue)
`correlate_system_means`       a system's mean over items   items, or groups of items
`correlate_with_reference`     a system's mean score        openers, annotators, systems
`correlate_with_annotators`    a system's rating            annotators
`correlate_with_ranks`         a system's rating            nothing
`agreement_among_annotators`   a system, two annotators     nothing
============================== ============================ ===========================

**Undefined values.** A point without one of its sides is left out. A coefficient is
`None`, with a reason, when fewer than three points are left (two with ranks) or all of
one side are equal. A resample of fewer than three different units, or without a
coefficient, is left out; there is no interval, and a reason, when fewer than half of
the resamples remain or when all of them give the same value. Partners are never drawn
anew. With few systems the intervals are rough, and they cannot reach beyond an order
that no resample upsets.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.ranking.intervals import FEWEST_OPENERS, draw_counts, draw_means
from parlai_ext.ranking.resamples import WEIGHTED
from parlai_ext.ranking.table import (
    Floats,
    check_table,
    json_number,
    round_off_noise,
    system_means,
)

FEWEST = 3  # different units in a resample, and points of a correlation
BOOTSTRAPS = 2000
CHUNK = 500  # resamples of items in memory at once
MAX_ENUMERATED = 50_000  # resamples of annotators that are enumerated, not drawn
ANNOTATOR_DRAWS = 2000
ENDS = (0.025, 0.975)

Places = npt.NDArray[np.int64]
Resamples = Iterable[tuple[Floats, Floats]]
# annotator -> system -> rank or rating; `None` for a cell that was left empty
AnnotatorRanks = Mapping[str, Mapping[str, float | None]]
# system -> value, or human judgements, whose mean by system is the value
Reference = Mapping[str, float] | Sequence[HumanJudgement]


@dataclass(frozen=True)
class Correlation:
    """
    One coefficient over `n` points; `None`, or no interval, for a `reason`.

    `low` and `high` are the ends of its interval. Among annotators `n` counts pairs of
    annotators. `notes` name the points and resamples that were left out.
    """

    value: float | None
    n: int
    reason: str | None = None
    low: float | None = None
    high: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Points:
    """
    What the points of a correlation and their two sides are called in reasons.
    """

    unit: str
    left: str
    right: str
    both: str
    fewest: int = FEWEST


ITEMS = Points('items', 'score', 'human value', 'a score and a human value')
MEANS = Points('systems', 'score', 'reference value', 'a score and a reference')
SYSTEM_MEANS = Points(
    'systems', 'mean score', 'mean human value', 'a score and a human value'
)
RATINGS = Points('systems', 'rating', 'human rank', 'a rating and a human rank', 2)


def pearson(left: Floats, right: Floats) -> Floats:
    """
    Return Pearson's r of each row; NaN where a side is constant.
    """
    # a rounded mean leaves a little spread of equal numbers: it must not count
    flat = (np.ptp(left, axis=1) == 0) | (np.ptp(right, axis=1) == 0)
    return np.where(flat, np.nan, _row_cosines(left, right))


def spearman(left: Floats, right: Floats) -> Floats:
    """
    Return Spearman's rho of each row, ties at mean ranks; NaN where a side is constant.
    """
    return _row_cosines(*(stats.rankdata(side, axis=1) for side in (left, right)))


def kendall(left: Floats, right: Floats) -> Floats:
    """
    Return Kendall's tau-b of each row; NaN where a side is constant.
    """
    agree, first, second = (np.zeros(len(left)) for _ in range(3))
    for i in range(1, left.shape[1]):
        a = np.sign(left[:, [i]] - left[:, :i])
        b = np.sign(right[:, [i]] - right[:, :i])
        agree += (a * b).sum(axis=1)
        first += (a * a).sum(axis=1)
        second += (b * b).sum(axis=1)
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.clip(agree / np.sqrt(first * second), -1.0, 1.0)


def _row_cosines(left: Floats, right: Floats) -> Floats:
    """
    Return the cosine of each row after its mean is taken off.
    """
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (left, right))
    with np.errstate(invalid='ignore', divide='ignore'):
        cosines = (a * b).sum(axis=1) / np.sqrt(
            (a * a).sum(axis=1) * (b * b).sum(axis=1)
        )
    return np.clip(cosines, -1.0, 1.0)


COEFFICIENTS = {'pearson': pearson, 'spearman': spearman, 'kendall': kendall}
OF_ORDER = ('spearman', 'kendall')


def correlate(
    left: Floats,
    right: Floats,
    points: Points,
    coefficients: Sequence[str],
    resamples: Resamples = (),
    bootstraps: int = 0,
) -> dict[str, Correlation]:
    """
    Return each coefficient of two sides ``[point]``, with intervals from resamples.

    :param resamples: pairs of ``[draw, point]``; not begun when nothing is defined.
    :param bootstraps: how many were drawn (0: no intervals).
    """
    if reason := undefined_reason(left, right, points):
        return {name: Correlation(None, len(left), reason) for name in coefficients}
    draws: dict[str, list[Floats]] = {name: [np.zeros(0)] for name in coefficients}
    for a, b in resamples:
        for name in coefficients if len(a) else ():
            draws[name].append(COEFFICIENTS[name](a, b))
    drawn = {name: np.concatenate(parts) for name, parts in draws.items()}
    return _correlations(left, right, points, coefficients, drawn, bootstraps)


def _correlations(
    left: Floats,
    right: Floats,
    points: Points,
    coefficients: Sequence[str],
    drawn: Mapping[str, Floats],
    bootstraps: int,
) -> dict[str, Correlation]:
    """
    Return the coefficients of two sides with the intervals of their draws.
    """
    result = {}
    for name in coefficients:
        value = json_number(float(COEFFICIENTS[name](left[None], right[None])[0]))
        correlation = Correlation(value, len(left))
        result[name] = (
            _with_interval(correlation, drawn[name], bootstraps, name, points)
            if bootstraps
            else correlation
        )
    return result


def undefined_reason(left: Floats, right: Floats, points: Points) -> str | None:
    """
    Return why there is no correlation, or `None` when there is one.

    :param points: the words for the points and their two sides.
    """
    if len(left) < points.fewest:
        have = f'{len(left)} {points.unit} have {points.both}'
        return f'{have}; {points.fewest} are needed'
    for side, side_name in ((left, points.left), (right, points.right)):
        if np.ptp(side) == 0:
            return f'all {points.unit} have the same {side_name}'
    return None


def _with_interval(
    correlation: Correlation, draws: Floats, bootstraps: int, name: str, points: Points
) -> Correlation:
    """
    Return a correlation with the interval of its draws, or with the reason for none.
    """
    draws = draws[~np.isnan(draws)]
    if 2 * len(draws) < bootstraps or not len(draws):
        what = f'most resamples hold too few different {points.unit}'
        return replace(correlation, reason=f'no interval: {what}')
    if np.ptp(draws) < 1e-12:
        what = 'order' if name in OF_ORDER else 'correlation'
        return replace(
            correlation, reason=f'no interval: no resample changes the {what}'
        )
    low, high = (json_number(float(end)) for end in np.quantile(draws, ENDS))
    return replace(correlation, low=low, high=high)


def agreement_data(
    correlations: Mapping[str, Correlation], **about: Any
) -> dict[str, Any]:
    """
    Return correlations over the same points as plain data for a file.

    :param about: more keys, such as the kind of the reference.
    :return: ``{coefficient: {'value', 'low', 'high'}, 'n', …}`` and, where a number is
        `None`, a ``'reason'``.
    """
    data: dict[str, Any] = {
        name: {
            'value': correlation.value,
            'low': correlation.low,
            'high': correlation.high,
        }
        for name, correlation in correlations.items()
    }
    data |= {'n': next(iter(correlations.values())).n, **about}
    if reasons := [
        correlation.reason
        for correlation in correlations.values()
        if correlation.reason
    ]:
        data['reason'] = reasons[-1]
    return data


# ---------------------------------------------------------------- utterances, dialogues


def correlate_items(
    scores: Sequence[float],
    human: Sequence[float],
    *,
    groups: Sequence[int] | None = None,
    coefficients: Sequence[str] = ('spearman', 'pearson'),
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
) -> dict[str, Correlation]:
    """
    Correlate two numbers of each item; items of a group are drawn together.

    :param groups: the group of each item, because utterances of one dialogue or over
        one context are alike; `None`: every item is a group of its own.
    """
    left, right = np.array([scores, human], dtype=np.float64).reshape(2, -1)
    if reason := undefined_reason(left, right, ITEMS):
        return {name: Correlation(None, len(left), reason) for name in coefficients}
    draws: dict[str, list[Floats]] = {name: [np.zeros(0)] for name in coefficients}
    units = range(len(left)) if groups is None else groups
    for weights in group_weights(units, bootstraps, seed):
        for name in coefficients:
            draws[name].append(WEIGHTED[name](left, right, weights))
    drawn = {name: np.concatenate(parts) for name, parts in draws.items()}
    return _correlations(left, right, ITEMS, coefficients, drawn, bootstraps)


def correlate_system_means(
    scores: Sequence[float],
    human: Sequence[float],
    systems: Sequence[str],
    *,
    groups: Sequence[int] | None = None,
    coefficients: Sequence[str] = ('spearman', 'pearson'),
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
) -> dict[str, Correlation]:
    """
    Correlate the means of systems over items, such as judged turns; items of a group
    are drawn together, systems are always all there.

    :param systems: the system of each item. An item has both numbers.
    """
    both = np.array([scores, human], dtype=np.float64).reshape(2, -1)
    names = sorted(set(systems))
    column = {name: k for k, name in enumerate(names)}
    of_system = np.zeros((both.shape[1], len(names)))
    of_system[range(both.shape[1]), [column[name] for name in systems]] = 1
    whole = np.ones((1, both.shape[1]))
    left, right = (_weighted_means(side, whole, of_system)[0] for side in both)
    units = range(both.shape[1]) if groups is None else groups

    def resamples() -> Iterator[tuple[Floats, Floats]]:
        for weights in group_weights(units, bootstraps, seed):
            a, b = (_weighted_means(side, weights, of_system) for side in both)
            complete = ~np.isnan(a).any(axis=1)
            yield a[complete], b[complete]

    return correlate(left, right, SYSTEM_MEANS, coefficients, resamples(), bootstraps)


def _weighted_means(side: Floats, weights: Floats, of_system: Floats) -> Floats:
    """
    Return ``[resample, system]``: means over the items, NaN for a system without one.

    :param of_system: ``[item, system]``: 1 where the item is of the system, else 0.
    """
    with np.errstate(invalid='ignore'):
        means = ((weights * side) @ of_system) / (weights @ of_system)
    return round_off_noise(means)


def group_weights(
    groups: Sequence[int], bootstraps: int, seed: int
) -> Iterator[Floats]:
    """
    Yield arrays ``[resample, item]``: how often each item is drawn. The items of a
    group are drawn together. Resamples with fewer than `FEWEST` different groups are
    left out.
    """
    rng = np.random.default_rng([seed, 3])
    _, first, of_item = np.unique(groups, return_index=True, return_inverse=True)
    n = len(first)
    # the number of a group is the place of its first appearance
    of_item = np.argsort(np.argsort(first))[of_item]
    for start in range(0, bootstraps, CHUNK):
        chosen = rng.integers(n, size=(min(CHUNK, bootstraps - start), n))
        chosen = chosen[_num_different(chosen) >= FEWEST]
        if len(chosen):
            flat = (chosen + n * np.arange(len(chosen))[:, None]).ravel()
            counts = np.bincount(flat, minlength=n * len(chosen))
            yield counts.reshape(-1, n)[:, of_item].astype(np.float64)


def _num_different(chosen: Places) -> Places:
    """
    Return how many different units each row of draws holds.
    """
    changes = np.diff(np.sort(chosen, axis=1), axis=1) > 0
    return 1 + changes.sum(axis=1, dtype=np.int64)


# --------------------------------------------------------------- systems, a reference


def correlate_with_reference(
    values: Floats,
    systems: Sequence[str],
    reference: Reference,
    *,
    coefficients: Sequence[str] = ('spearman', 'kendall'),
    bootstraps: int,
    seed: int,
    games_per_opener: int = 1,
) -> dict[str, Correlation]:
    """
    Correlate the mean scores of systems with a reference.

    Mean scores are correlated, not the ranks of a leaderboard (which tie). A system
    without a score or without a reference value is left out.

    There is no interval with fewer than three distinct openers.

    :param values: ``[system, partner, opener]`` dialogue means, NaN for no score.
    :param games_per_opener: see `draw_means`.
    """
    table = check_table(values, systems)
    chosen = _systems_with_both(system_means(table), systems, reference)
    names = [systems[i] for i in chosen]
    means = round_off_noise(system_means(table[chosen]))
    panel = None
    if isinstance(reference, Mapping):
        target = np.array([float(reference[name]) for name in names])
    else:
        panel = AnnotatorPanel.from_judgements(reference, names)
        target = round_off_noise(panel.means())

    def resamples() -> Iterator[tuple[Floats, Floats]]:
        rng = np.random.default_rng([seed, 2])
        draws = draw_means(table[chosen], bootstraps, seed, games_per_opener)
        left = round_off_noise(draws.means + draws.fixed)
        right = np.broadcast_to(target, left.shape)
        if panel is not None:
            right = round_off_noise(panel.draw(bootstraps, rng))
        yield _resampled_systems(left, right, rng)

    seen = ~np.isnan(table[chosen]).all(axis=(0, 1))
    n_openers = int(seen.reshape(games_per_opener, -1).any(axis=0).sum())
    if n_openers >= FEWEST_OPENERS:
        return correlate(means, target, MEANS, coefficients, resamples(), bootstraps)
    reason = f'no interval: distinct openers: {n_openers}; {FEWEST_OPENERS} are needed'
    return {
        name: replace(correlation, reason=correlation.reason or reason)
        for name, correlation in correlate(means, target, MEANS, coefficients).items()
    }


def _systems_with_both(
    means: Floats, systems: Sequence[str], reference: Reference
) -> list[int]:
    """
    Return the indices of the systems with a score and a reference value, in the order
    of their names.
    """
    if isinstance(reference, Mapping):
        judged = {name for name, value in reference.items() if value is not None}
    else:
        judged = {judgement.system for judgement in reference}
    there = [
        i for i, name in enumerate(systems) if name in judged and not np.isnan(means[i])
    ]
    return sorted(there, key=lambda i: systems[i])


def _resampled_systems(
    left: Floats, right: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """
    Draw systems with replacement in every row of two arrays ``[resample, system]``.
    Rows with fewer than three different systems, or with a missing value, are left out.
    """
    chosen = rng.integers(left.shape[1], size=left.shape)
    left = np.take_along_axis(left, chosen, axis=1)
    right = np.take_along_axis(right, chosen, axis=1)
    complete = ~np.isnan(left).any(axis=1) & ~np.isnan(right).any(axis=1)
    keep = complete & (_num_different(chosen) >= FEWEST)
    return left[keep], right[keep]


@dataclass(frozen=True)
class AnnotatorPanel:
    """
    For each annotator and system the sum and the number of judgements.

    Both arrays are ``[annotator, system]``. A judgement without an annotator counts as
    an annotator of its own. Annotators who saw several systems are drawn together, so
    that one draw moves all of these; those who saw one system are drawn within it, so
    that no draw leaves it without a judgement.
    """

    sums: Floats
    counts: Floats

    @classmethod
    def from_judgements(
        cls, judgements: Sequence[HumanJudgement], systems: Sequence[str]
    ) -> AnnotatorPanel:
        """
        Return the panel of the judgements of these systems.
        """
        column = {name: i for i, name in enumerate(systems)}
        used = [j for j in judgements if j.system in column]
        # sorted, so that the order of the rows in a file changes nothing
        used.sort(key=lambda j: (j.system, j.rater or '', j.value))
        units: dict[tuple[str, str], list[HumanJudgement]] = defaultdict(list)
        for row, judgement in enumerate(used):
            annotator = (
                ('row', f'{row:09}')
                if judgement.rater is None
                else ('rater', judgement.rater)
            )
            units[annotator].append(judgement)
        sums = np.zeros((len(units), len(systems)))
        counts = np.zeros((len(units), len(systems)))
        for u, key in enumerate(sorted(units)):
            for judgement in units[key]:
                sums[u, column[judgement.system]] += judgement.value
                counts[u, column[judgement.system]] += 1
        return cls(sums, counts)

    def means(self) -> Floats:
        """
        Return each system's mean judgement, NaN when it has none.
        """
        with np.errstate(invalid='ignore'):
            return self.sums.sum(axis=0) / self.counts.sum(axis=0)

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """
        Return ``[draw, system]`` means of annotators drawn with replacement.
        """
        seen = (self.counts > 0).sum(axis=1)
        only = self.counts.argmax(axis=1)
        strata = [np.flatnonzero(seen > 1)]
        strata += [
            np.flatnonzero((seen == 1) & (only == s))
            for s in range(self.counts.shape[1])
        ]
        weights = np.zeros((draws, len(seen)))
        for units in strata:
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
    there = [n for n in sorted(values) if _known(values[n]) and _known(ranks.get(n))]
    unranked = [n for n in sorted(values) if not _known(ranks.get(n))]
    unrated = [n for n in sorted(values) if not _known(values[n]) and n not in unranked]
    notes = [f'no human rank: {", ".join(unranked)}'] if unranked else []
    notes += [f'no rating: {", ".join(unrated)}'] if unrated else []
    left, right = _two_sides(values, ranks, there)
    correlation = correlate(left, -right, RATINGS, [coefficient])[coefficient]
    return replace(correlation, notes=tuple(notes))


def mean_ranks(annotators: AnnotatorRanks) -> dict[str, float | None]:
    """
    Return each system's mean over the annotators who ranked it.
    """
    names = sorted(
        {name for ranks_of_one in annotators.values() for name in ranks_of_one}
    )
    means: dict[str, float | None] = {}
    for name in names:
        ranks = [ranks_of_one.get(name) for ranks_of_one in annotators.values()]
        numbers = [float(rank) for rank in ranks if rank is not None and rank == rank]
        means[name] = math.fsum(numbers) / len(numbers) if numbers else None
    return means


def unmatched_systems(systems: Sequence[str], annotators: AnnotatorRanks) -> list[str]:
    """
    Return notes on systems without a human rank and on ranks of unknown systems.
    """
    ranks = mean_ranks(annotators)
    lacking = [n for n in sorted({*systems}) if not _known(ranks.get(n))]
    unknown = [n for n in sorted(ranks) if n not in systems]
    notes = [f'no human rank, left out of tau: {", ".join(lacking)}'] if lacking else []
    return notes + ([f'ranked but not there: {", ".join(unknown)}'] if unknown else [])


def agreement_among_annotators(
    annotators: AnnotatorRanks, systems: Sequence[str] | None = None
) -> Correlation:
    """
    Return the mean tau-b over pairs of annotators (Yang et al. 2022, Table 4).

    A pair compares the systems that both ranked. A pair without a tau (one of them gave
    all systems the same value) is left out and counted in the notes.

    :param systems: compare these alone (`None`: all).
    """
    taus, left_out = [], 0
    for annotator, other in combinations(sorted(annotators), 2):
        a, b = annotators[annotator], annotators[other]
        there = [n for n in sorted(a) if _known(a[n]) and _known(b.get(n))]
        there = [n for n in there if systems is None or n in systems]
        sides = _two_sides(a, b, there)
        tau = correlate(*sides, RATINGS, ['kendall'])['kendall'].value
        if tau is None:
            left_out += 1
        else:
            taus.append(tau)
    notes = (f'{left_out} pairs of annotators without a tau',) if left_out else ()
    if not taus:
        return Correlation(None, 0, 'no two annotators can be compared', notes=notes)
    return Correlation(json_number(math.fsum(taus) / len(taus)), len(taus), notes=notes)


def correlate_with_annotators(
    values: Mapping[str, float | None], annotators: AnnotatorRanks, *, seed: int = 0
) -> Correlation:
    """
    Return tau-b of values with mean ranks, and its 95 % range over annotators.

    With few annotators every possible draw is enumerated (four: 256), with more
    `ANNOTATOR_DRAWS` are drawn.
    """
    correlation = correlate_with_ranks(values, mean_ranks(annotators))
    if correlation.value is None:
        return correlation
    rated = [name for name in sorted(values) if _known(values[name])]
    ranks = np.array(
        [
            [_number(annotators[a].get(name)) for name in rated]
            for a in sorted(annotators)
        ]
    )
    drawn = _annotator_draws(len(annotators), seed)
    there = ~np.isnan(ranks)
    with np.errstate(invalid='ignore'):
        means = (drawn @ np.where(there, ranks, 0.0)) / (drawn @ there)
    ranked = there.any(axis=0)
    right = -round_off_noise(means[:, ranked])
    right = right[~np.isnan(right).any(axis=1)]
    left = round_off_noise(np.array([_number(values[name]) for name in rated])[ranked])
    return with_range(correlation, kendall(np.broadcast_to(left, right.shape), right))


def _annotator_draws(annotators: int, seed: int) -> Floats:
    """
    Return ``[draw, annotator]``: how often each annotator is in each resample.
    """
    if annotators**annotators <= MAX_ENUMERATED:
        chosen = np.array(list(product(range(annotators), repeat=annotators)))
    else:
        rng = np.random.default_rng([seed % 2**32, 3])
        chosen = rng.integers(annotators, size=(ANNOTATOR_DRAWS, annotators))
    counts = np.zeros((len(chosen), annotators))
    for column in chosen.T:
        counts[np.arange(len(chosen)), column] += 1
    return counts


def with_range(
    correlation: Correlation, draws: Floats, ends: tuple[float, float] = ENDS
) -> Correlation:
    """
    Return a correlation with two quantiles of the draws that have a value (not NaN).

    A range says how far a value would move. Unlike an interval it exists as soon as one
    draw has a value; the draws without one are counted in the notes.
    """
    defined = draws[~np.isnan(draws)]
    notes = correlation.notes
    if lost := len(draws) - len(defined):
        notes = (*notes, f'{lost} of {len(draws)} draws without a tau')
    if not len(defined):
        return replace(correlation, low=None, high=None, notes=notes)
    low, high = (json_number(float(end)) for end in np.quantile(defined, ends))
    return replace(correlation, low=low, high=high, notes=notes)


def _two_sides(
    first: Mapping[str, float | None],
    second: Mapping[str, float | None],
    names: Sequence[str],
) -> tuple[Floats, Floats]:
    """
    Return the values of two mappings for ``names`` as two arrays, rounded so that equal
    values tie.
    """
    left, right = (
        round_off_noise(np.array([_number(side[name]) for name in names]))
        for side in (first, second)
    )
    return left, right


def _known(value: float | None) -> bool:
    return value is not None and value == value


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
