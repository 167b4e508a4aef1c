"""
Which scorers of a bench differ, on each set and over all, and which say the same.

Scorers are compared by the overall quality of a set (where it has none, by its first),
by another quality, or by each, over the items that both scored. A scorer that has a
dimension of its own for a quality is compared by that, else by its main score. A
p-value of a pair of scorers is adjusted for the sets and qualities on which that pair
is compared (Holm), one over all sets together for all pairs. Sets that most scorers
cannot judge are not among these: a mean over other sets is no comparison.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parlai_ext.bench.bench_files import (
    Bench,
    SetPoints,
    read_bench,
    read_points,
)
from parlai_ext.core import (
    JsonObject,
    UserError,
    frozen,
    grouped,
    nearest,
    require_known,
)
from parlai_ext.core.records import record_to_json
from parlai_ext.ranking.agreement import group_weights, weighted_spearman
from parlai_ext.ranking.comparison import (
    LEVEL,
    PERMUTATIONS,
    Ceiling,
    adjusted,
    annotator_ceiling,
    clusters,
    rank_products,
    standard_ranks,
    swap_tests,
    williams_test,
)
from parlai_ext.ranking.intervals import Floats, Sampling, percentile_ends
from parlai_ext.view.progress import bar_of

ALL_SETS = 'all sets'
OVERALL, EACH = 'overall', 'each'  # what may be compared, beside a quality's name
FEWEST_ITEMS = 10
NOT_INDEPENDENT = 'items of one {} are alike; the test needs independent ones'

Pair = tuple[str, str]
Place = tuple[str, str]  # a set and a quality
QualityPoints = tuple[SetPoints, str]  # a set and the quality by which it is compared
Correlations = dict[Place, dict[str, float]]  # by scorer
SwapTest = Callable[[Floats], list[float]]  # the p-value of each column


@frozen
class PairDifference:
    """
    The difference of two scorers' Spearman correlations with people on one set.

    :param set_name: the set, or `ALL_SETS` for the mean over common sets.
    :param quality: of the set; over all sets `OVERALL`, `EACH` or a quality's name.
    :param n, n_groups: items that both scored, and contexts or dialogues of them.
    :param p: of the paired permutation test; `p_holm` is adjusted for several tests.
    :param williams_t, williams_p: of Pearson's r, where items are independent;
        `williams_reason` says why not.
    """

    first: str
    second: str
    set_name: str
    quality: str
    n: int
    n_groups: int
    difference: float
    p: float
    p_holm: float
    williams_t: float | None = None
    williams_p: float | None = None
    williams_reason: str | None = None


@frozen
class ScorerPlace:
    """
    A scorer's correlation with a quality of a set, and its cluster: those of one
    cluster cannot be told apart.
    """

    scorer: str
    set_name: str
    quality: str
    spearman: float
    cluster: int


@frozen
class TrivialRival:
    """
    How a trivial scorer does against the best of the others.

    :param spearman: of the trivial scorer; below 0 it agrees the other way round.
    :param p: of the difference, adjusted; `None` where the two have no items in common.
    """

    scorer: str
    spearman: float
    p: float | None
    is_beaten: bool


@frozen
class BestScorer:
    """
    The scorer with the highest mean Spearman over the common sets that is not trivial.

    :param low, high: the 95 % interval from resamples of the contexts of each set.
    :param n: the items that it scored on these sets.
    :param fitted_on: those of these sets on which something in it was fitted.
    :param not_apart: other scorers that cannot be told apart from it.
    :param qualities: by which the scorers were compared; none: by the overall ones.
    :param trivial: every trivial scorer with a correlation, the highest first.
    :param without: trivial scorers without one on each of these sets.
    :param too_few: contexts, where no difference over them could be told from chance:
        all signs of n contexts are alike by chance once in 2^(n - 1) times.
    """

    scorer: str
    spearman: float
    low: float | None
    high: float | None
    n: int
    sets: tuple[str, ...]
    fitted_on: tuple[str, ...]
    not_apart: tuple[str, ...]
    trivial: tuple[TrivialRival, ...]
    without: tuple[str, ...] = ()
    qualities: tuple[str, ...] = ()
    too_few: int | None = None


@frozen
class BenchComparison:
    """
    What `compare_bench` returns.

    :param quality: by what scorers were compared: `OVERALL`, `EACH` or a name.
    :param ceilings: by set and quality, how well annotators agree.
    :param redundancy: mean over sets of Spearman between the scores of two scorers, and
        on how many sets.
    :param best: the scorer that agrees best with people over all sets; `None` where
        none has a correlation on each of them.
    """

    quality: str
    differences: tuple[PairDifference, ...]
    places: tuple[ScorerPlace, ...]
    ceilings: Mapping[Place, Ceiling]
    redundancy: Mapping[Pair, tuple[float, int]]
    scorers: tuple[str, ...]
    best: BestScorer | None = None


def compare_bench(
    folder: Path,
    *,
    sets: Sequence[str] = (),
    quality: str = OVERALL,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> BenchComparison:
    """
    Compare the scorers of the bench in a folder.

    :param sets: those on which they are compared (none: all).
    :param quality: `OVERALL`, `EACH`, or the name of one; sets without it are left out.
    :raises UserError: when there is no bench, set or quality of that name, or nothing
        to compare.
    """
    bench = read_bench(folder)
    names = [one.name for one in bench.sets]
    for name in sets:
        require_known(name, names, f'--sets {name}: not in this bench')
    points = [read_points(folder, n) for n in names if not sets or n in sets]
    compared = quality_points(points, quality)
    labels = [o.label for o in sorted(bench.scorers, key=lambda one: one.is_trivial)]
    correlations = _correlations(labels, compared)
    known = {*chain(*correlations.values())}
    scorers = [label for label in labels if label in known]
    if len(scorers) < 2:
        raise UserError(
            f'{folder}: two scorers are needed with different scores of {FEWEST_ITEMS} '
            f'or more judged items; {", ".join(scorers) or "none"} has them'
        )
    pairs = list(combinations(scorers, 2))
    common, means_of_sets = _common_means(correlations, len(scorers))
    test = partial(swap_tests, permutations=permutations, seed=seed)
    of_sets, items = _differences_of_sets(compared, pairs, test)
    of_common_sets = {
        pair: [own for name, own in by_set.items() if name in common]
        for pair, by_set in items.items()
    }
    overall = _differences_over_sets(of_common_sets, quality, test)
    differences = [*adjusted(of_sets, lambda row: (row.first, row.second)), *overall]
    correlations[ALL_SETS, quality] = means_of_sets
    same = compared if quality != EACH else quality_points(points, OVERALL)
    of_common = [one for one in compared if one[0].set_name in common]
    return BenchComparison(
        quality,
        tuple(differences),
        tuple(_places(correlations, differences)),
        _ceilings(points),
        _redundancy(same, pairs),
        tuple(scorers),
        _best_scorer(bench, of_common, means_of_sets, overall),
    )


def _correlations(
    labels: Sequence[str], compared: Sequence[QualityPoints]
) -> Correlations:
    """
    Return each scorer's Spearman with each quality of a set, where it has one.
    """
    return {
        (one.set_name, quality): {
            label: float(rank_products(items.columns[0], items.human).sum())
            for label in labels
            if (items := common_items(one, quality, label)) is not None
        }
        for one, quality in compared
    }


def quality_points(points: Sequence[SetPoints], quality: str) -> list[QualityPoints]:
    """
    Return what is compared on each set: one quality, or each.

    :raises UserError: when no set has a quality of that name.
    """
    compared = []
    for one in points:
        names = [name for name in one.human if name.lower() == quality.lower()]
        if quality == EACH:
            names = list(one.human)
        elif quality == OVERALL:
            names = [one.overall or next(iter(one.human))]
        compared += [(one, name) for name in names]
    if points and not compared:
        known = list(dict.fromkeys(name for one in points for name in one.human))
        hint = nearest(quality, known)
        raise UserError(f'--quality {quality}: no set of this bench has it; {hint}')
    return compared


@frozen
class CommonItems:
    """
    The items of a set that one or two scorers and people scored.

    :param columns: the scores of each scorer.
    :param parts: of Spearman of the first with people, less that of the second: what
        each context of the set adds; 0 where they have no item of it.
    """

    columns: Floats
    human: Floats
    groups: tuple[int, ...]
    parts: Floats


def common_items(points: SetPoints, quality: str, *scorers: str) -> CommonItems | None:
    """
    Return the items that these scorers and people scored by a quality; `None` if they
    are too few, or all values of one are equal.
    """
    scores = {**points.scores, **points.own_scores.get(quality, {})}
    if any(label not in scores for label in scorers):
        return None
    columns = [points.human[quality], *(scores[label] for label in scorers)]
    rows = [
        (group, *values)
        for group, *values in zip(points.groups, *columns, strict=True)
        if None not in values
    ]
    groups, *sides = zip(*rows, strict=True) if rows else ((),)
    if len(rows) < FEWEST_ITEMS or any(min(side) == max(side) for side in sides):
        return None
    human, *own = np.array(sides, dtype=np.float64)
    first, *others = (rank_products(column, human) for column in own)
    weights = first - others[0] if others else first
    parts = np.bincount(groups, weights, max(points.groups) + 1).astype(np.float64)
    return CommonItems(np.array(own), human, groups, parts)


def _differences_of_sets(
    compared: Sequence[QualityPoints], pairs: Sequence[Pair], test: SwapTest
) -> tuple[list[PairDifference], dict[Pair, dict[str, list[CommonItems]]]]:
    """
    Return the differences of pairs on each quality of each set, not adjusted yet, and
    the items of each pair by set, a list with those of each quality.
    """
    rows = []
    items: dict[Pair, dict[str, list[CommonItems]]] = {pair: {} for pair in pairs}
    with bar_of('compare', len(compared), delay=2, unit='quality') as bar:
        for one, quality in compared:
            both = {pair: common_items(one, quality, *pair) for pair in pairs}
            known = {pair: own for pair, own in both.items() if own is not None}
            table = np.array([own.parts for own in known.values()]).T
            p_values = test(table) if known else []
            for (pair, own), p in zip(known.items(), p_values, strict=True):
                items[pair].setdefault(one.set_name, []).append(own)
                place = (one.set_name, quality)
                reason = None
                if one.unit != 'item':
                    reason = NOT_INDEPENDENT.format(one.unit)
                rows.append(_difference(pair, place, [[own]], own.parts, p, reason))
            bar.update()
    return rows, items


def _differences_over_sets(
    items: Mapping[Pair, Sequence[Sequence[CommonItems]]], quality: str, test: SwapTest
) -> list[PairDifference]:
    """
    Return the differences of means over sets.

    :param items: of each pair on each set, by quality.
    """
    rows = []
    for pair, sets in items.items():
        if sets:
            # contexts of all sets are swapped at once, in all qualities together
            means = [np.mean([one.parts for one in own], axis=0) for own in sets]
            joined = np.concatenate(means) / len(means)
            [p] = test(joined[:, None])
            place, reason = (ALL_SETS, quality), 'the sets have other items'
            rows.append(_difference(pair, place, sets, joined, p, reason))
    return adjusted(rows, lambda row: None)


def _difference(
    pair: Pair,
    place: Place,
    sets: Sequence[Sequence[CommonItems]],
    parts: Floats,
    p: float,
    reason: str | None,
) -> PairDifference:
    """
    Return the difference of a pair, not adjusted yet.

    :param sets: the common items of each set, by quality.
    :param parts: what each context adds to the difference.
    :param reason: why Williams' test does not apply; `None`: it is made.
    """
    t, williams_p = None, None
    if reason is None:
        [[items]] = sets
        matrix = np.corrcoef([items.human, *items.columns])
        one, other, between = matrix[np.triu_indices(3, 1)].tolist()
        t, williams_p = williams_test(one, other, between, len(items.human))
    first, second = pair
    set_name, quality = place
    return PairDifference(
        first=first,
        second=second,
        set_name=set_name,
        quality=quality,
        n=_n_items(sets),
        n_groups=sum(max(len(set(one.groups)) for one in own) for own in sets),
        difference=float(parts.sum()),
        p=p,
        p_holm=p,
        williams_t=t,
        williams_p=williams_p,
        williams_reason=reason,
    )


def _n_items(sets: Iterable[Sequence[CommonItems]]) -> int:
    """
    Return how many items there are, those of several qualities once.
    """
    return sum(max(len(one.human) for one in own) for own in sets)


def _ceilings(points: Sequence[SetPoints]) -> dict[Place, Ceiling]:
    """
    Return how well annotators agree, where they are kept one by one.
    """
    return {
        (one.set_name, name): annotator_ceiling(numbers)
        for one in points
        for name, numbers in one.annotators.items()
        if any(len(given) > 1 for given in numbers)
    }


def _common_means(
    correlations: Correlations, n_scorers: int
) -> tuple[list[str], dict[str, float]]:
    """
    Return the sets on which at least half of the scorers have a correlation, and the
    mean over these, each the mean over its qualities, of the scorers that have a
    correlation with each of them.
    """
    rows = pd.DataFrame(correlations.values(), index=pd.Index(correlations))
    by_set: Any = {'level': 0, 'sort': False}
    n_judging = rows.notna().groupby(**by_set).any().sum(axis=1)
    common = [str(name) for name, n in n_judging.items() if 2 * n >= n_scorers]
    rows = rows[rows.index.isin(common, level=0)].dropna(axis=1)
    means: Any = rows.groupby(**by_set).mean().mean()
    return common, means.to_dict()


def _best_scorer(
    bench: Bench,
    compared: Sequence[QualityPoints],
    means: Mapping[str, float],
    differences: Sequence[PairDifference],
) -> BestScorer | None:
    """
    Return the best of the scorers that are not trivial, and whom it beats.

    :param compared: the qualities of the common sets.
    :param means: over these sets, by scorer.
    :param differences: of these means.
    """
    about = {one.label: one for one in bench.scorers}
    chosen = [label for label in means if not about[label].is_trivial]
    if not chosen:
        return None
    best = max(chosen, key=lambda label: means[label])
    p_values = {
        row.second if row.first == best else row.first: row.p_holm
        for row in differences
        if best in (row.first, row.second)
    }
    beaten = {
        label
        for label, p in p_values.items()
        if p < LEVEL and means[best] > means.get(label, np.inf)
    }
    most = max((row.n_groups for row in differences), default=0)
    low, high, n = _mean_interval(bench, compared, best)
    sets = tuple(dict.fromkeys(one.set_name for one, _ in compared))
    trivial = [label for label in means if about[label].is_trivial]
    return BestScorer(
        scorer=best,
        spearman=means[best],
        low=low,
        high=high,
        n=n,
        sets=sets,
        fitted_on=tuple(name for name in sets if name in about[best].fitted_on),
        not_apart=tuple(o for o in chosen if o != best and o not in beaten),
        trivial=tuple(
            TrivialRival(one, means[one], p_values.get(one), one in beaten)
            for one in sorted(trivial, key=lambda one: -means[one])
        ),
        without=tuple(
            o.label for o in bench.scorers if o.is_trivial and o.label not in means
        ),
        qualities=_other_qualities(bench, compared),
        too_few=most if len(differences) * 2.0 ** (1 - most) >= LEVEL else None,
    )


def _other_qualities(
    bench: Bench, compared: Sequence[QualityPoints]
) -> tuple[str, ...]:
    """
    Return the qualities that were compared; none if they are the overall ones.
    """
    overall = {(one.name, one.overall) for one in bench.sets}
    if {(one.set_name, quality) for one, quality in compared} <= overall:
        return ()
    return tuple(dict.fromkeys(quality for _, quality in compared))


def _mean_interval(
    bench: Bench, compared: Sequence[QualityPoints], label: str
) -> tuple[float | None, float | None, int]:
    """
    Return the 95 % interval of a scorer's mean over sets, each the mean over its
    qualities, and how many items it scored. Contexts are drawn anew in each set, the
    same ones for all qualities; of one set it is the interval of the bench's table.
    """
    by_set = grouped(
        (one.set_name, items)
        for one, quality in compared
        if (items := common_items(one, quality, label)) is not None
    )
    n = _n_items(by_set.values())
    of_sets = [
        np.mean([_drawn_spearman(bench, items, k) for items in of_set], axis=0)
        for k, of_set in enumerate(by_set.values())
    ]
    draws = np.mean(of_sets, axis=0)
    draws = draws[~np.isnan(draws)]
    if 2 * len(draws) < bench.bootstraps or np.ptp(draws) < 1e-12:
        return None, None, n
    return *percentile_ends(draws), n


def _drawn_spearman(bench: Bench, items: CommonItems, place: int) -> Floats:
    """
    Return Spearman of each resample of contexts, NaN where there are too few different
    ones.

    :param place: of the set, each of which has draws of its own.
    """
    draws, end = np.full(bench.bootstraps, np.nan), 0
    sampling = Sampling(bench.bootstraps, bench.seed + place)
    for weights in group_weights(items.groups, sampling):
        begin, end = end, end + len(weights)
        draws[begin:end] = weighted_spearman(items.columns[0], items.human, weights)
    return draws


def _places(
    correlations: Correlations, differences: Sequence[PairDifference]
) -> Iterator[ScorerPlace]:
    """
    Yield each scorer's correlation and cluster at each place.
    """
    for place, values in correlations.items():
        numbers = {label: k for k, label in enumerate(values)}
        p_values = np.ones((len(numbers), len(numbers)))
        for row in differences:
            i, j = numbers.get(row.first), numbers.get(row.second)
            if (row.set_name, row.quality) == place and None not in (i, j):
                p_values[i, j] = p_values[j, i] = row.p_holm
        found = clusters(list(values.values()), p_values)
        for label, cluster in zip(values, found, strict=True):
            yield ScorerPlace(label, *place, values[label], cluster)


def _redundancy(
    compared: Sequence[QualityPoints], pairs: Sequence[Pair]
) -> dict[Pair, tuple[float, int]]:
    """
    Return the mean over sets of Spearman between the scores of each pair.
    """
    matrix = {}
    for pair in pairs:
        values = [
            float(standard_ranks(items.columns[0]) @ standard_ranks(items.columns[1]))
            for one, quality in compared
            if (items := common_items(one, quality, *pair)) is not None
        ]
        if values:
            matrix[pair] = (float(np.mean(values)), len(values))
    return matrix


def comparison_data(result: BenchComparison) -> JsonObject:
    """
    Return a comparison as plain data for a file; infinity is a text.
    """
    return {
        'schema': 2,
        'quality': result.quality,
        'scorers': list(result.scorers),
        'differences': [
            {k: str(v) if v in (np.inf, -np.inf) else v for k, v in vars(row).items()}
            for row in result.differences
        ],
        'places': [vars(place) for place in result.places],
        'ceilings': [
            {'set': name, 'quality': quality, **vars(one)}
            for (name, quality), one in result.ceilings.items()
        ],
        'redundancy': [
            {'first': a, 'second': b, 'spearman': rho, 'sets': n}
            for (a, b), (rho, n) in result.redundancy.items()
        ],
        'best': None if result.best is None else record_to_json(result.best),
    }
