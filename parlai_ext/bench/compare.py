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
from itertools import combinations, compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from parlai_ext.bench.bench_files import Bench, SetPoints, read_bench, read_points
from parlai_ext.core import (
    JsonObject,
    UserError,
    frozen,
    grouped,
    record_to_json,
    require_known,
)
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

Pair = tuple[str, str]
Place = tuple[str, str]  # a set and a quality
Compared = Mapping[Place, SetPoints]  # the points by which a place is compared
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
    sets: Sequence[str]
    fitted_on: Sequence[str]
    not_apart: Sequence[str]
    trivial: Sequence[TrivialRival]
    without: Sequence[str] = ()
    qualities: Sequence[str] = ()
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
    differences: Sequence[PairDifference]
    places: Sequence[ScorerPlace]
    ceilings: Mapping[Place, Ceiling]
    redundancy: Mapping[Pair, tuple[float, int]]
    scorers: Sequence[str]
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
    test = partial(swap_tests, permutations=permutations, seed=seed)
    scorers = ComparedScorers(bench, points, quality, test)
    if len(scorers.labels) < 2:
        raise UserError(
            f'{folder}: two scorers are needed with different scores of {FEWEST_ITEMS} '
            f'or more judged items; {", ".join(scorers.labels) or "none"} has them'
        )
    overall = scorers.differences_over_sets()
    differences = [*scorers.differences_of_sets(), *overall]
    return BenchComparison(
        quality,
        differences,
        list(scorers.places(differences)),
        {
            (one.set_name, name): annotator_ceiling(numbers)
            for one in points
            for name, numbers in one.annotators.items()
            if any(len(given) > 1 for given in numbers)  # they are kept one by one
        },
        scorers.redundancy(
            compared_places(points, OVERALL if quality == EACH else quality)
        ),
        scorers.labels,
        scorers.best(overall),
    )


def compared_places(points: Sequence[SetPoints], quality: str) -> Compared:
    """
    Return what is compared on each set: one quality, or each.

    :raises UserError: when no set has a quality of that name.
    """
    compared: dict[Place, SetPoints] = {}
    for one in points:
        names = [name for name in one.human if name.lower() == quality.lower()]
        if quality == EACH:
            names = list(one.human)
        elif quality == OVERALL:
            names = [one.overall or next(iter(one.human))]
        compared |= {(one.set_name, name): one for name in names}
    if points and not compared:
        known = list(dict.fromkeys(name for one in points for name in one.human))
        problem = f'--quality {quality}: no set of this bench has it'
        require_known(quality, known, problem)
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


def common_items(
    compared: Compared, scorers: Sequence[str]
) -> dict[Place, CommonItems]:
    """
    Return the items that these scorers and people scored, by set and quality; nothing
    where they are too few, or all values of one are equal.
    """
    items = {}
    for (name, quality), one in compared.items():
        scores = {**one.scores, **one.own_scores.get(quality, {})}
        if any(label not in scores for label in scorers):
            continue
        columns = [one.human[quality], *(scores[label] for label in scorers)]
        table = np.array(columns, dtype=np.float64)
        known = np.asarray(~np.isnan(table).any(axis=0))
        table = table[:, known]
        if known.sum() < FEWEST_ITEMS or not np.ptp(table, axis=1).all():
            continue
        human, own = table[0], table[1:]
        groups = tuple(compress(one.groups, known))
        first, *others = (rank_products(column, human) for column in own)
        weights = first - others[0] if others else first
        parts = np.bincount(groups, weights, max(one.groups) + 1).astype(np.float64)
        items[name, quality] = CommonItems(own, human, groups, parts)
    return items


class ComparedScorers:
    """
    The scorers of a bench on the sets and qualities that are compared.

    :ivar labels: of the scorers that have a correlation somewhere, trivial ones last.
    :ivar correlations: by set and quality, Spearman of each scorer that has one.
    :ivar common: the sets on which at least half of the scorers have a correlation.
    :ivar means: over the common sets, each the mean over its qualities, of the scorers
        that have a correlation with each of them.
    """

    def __init__(
        self, bench: Bench, points: Sequence[SetPoints], quality: str, test: SwapTest
    ):
        self.bench, self.quality, self.test = bench, quality, test
        self.compared = compared_places(points, quality)
        labels = [o.label for o in sorted(bench.scorers, key=lambda o: o.is_trivial)]
        # by one or two scorers
        self.items: dict[tuple[str, ...], dict[Place, CommonItems]] = {
            (label,): common_items(self.compared, [label]) for label in labels
        }
        self.labels = [label for label in labels if self.items[label,]]
        self.pairs = list(combinations(self.labels, 2))
        self.items |= {pair: common_items(self.compared, pair) for pair in self.pairs}
        self.correlations = {
            place: {
                label: float(rank_products(items.columns[0], items.human).sum())
                for label in self.labels
                if (items := self.items[label,].get(place)) is not None
            }
            for place in self.compared
        }
        self.common, self.means = self._common_means()

    def _common_means(self) -> tuple[list[str], dict[str, float]]:
        """
        Return the common sets, and the means over them.
        """
        places = pd.Index(self.correlations)
        rows = pd.DataFrame(self.correlations.values(), index=places)
        by_set: Any = {'level': 0, 'sort': False}
        n_judging = rows.notna().groupby(**by_set).any().sum(axis=1)
        n_needed = len(self.labels) / 2
        common = [str(name) for name, n in n_judging.items() if n >= n_needed]
        rows = rows[rows.index.isin(common, level=0)].dropna(axis=1)
        means: Any = rows.groupby(**by_set).mean().mean()
        return common, means.to_dict()

    def differences_of_sets(self) -> list[PairDifference]:
        """
        Return the differences of pairs on each quality of each set.
        """
        rows = []
        with bar_of('compare', len(self.compared), delay=2, unit='quality') as bar:
            for place, one in self.compared.items():
                of_place = ((pair, self.items[pair].get(place)) for pair in self.pairs)
                known = {pair: own for pair, own in of_place if own is not None}
                table = np.array([own.parts for own in known.values()]).T
                p_values = self.test(table) if known else []
                reason = None
                if one.unit != 'item':
                    alike = f'items of one {one.unit} are alike'
                    reason = f'{alike}; the test needs independent ones'
                for (pair, own), p in zip(known.items(), p_values, strict=True):
                    rows.append(_difference(pair, place, [[own]], own.parts, p, reason))
                bar.update()
        return adjusted(rows, lambda row: (row.first, row.second))

    def differences_over_sets(self) -> list[PairDifference]:
        """
        Return the differences of means over the common sets.
        """
        rows = []
        for pair in self.pairs:
            if sets := self.items_of_common_sets(*pair):
                # contexts of all sets are swapped at once, in all qualities together
                means = [np.mean([one.parts for one in own], axis=0) for own in sets]
                joined = np.concatenate(means) / len(means)
                [p] = self.test(joined[:, None])
                place, reason = (ALL_SETS, self.quality), 'the sets have other items'
                rows.append(_difference(pair, place, sets, joined, p, reason))
        return adjusted(rows, lambda row: None)

    def items_of_common_sets(self, *scorers: str) -> list[list[CommonItems]]:
        """
        Return the items of these scorers on each common set, by quality.
        """
        items = self.items[scorers].items()
        by_set = grouped((name, o) for (name, _), o in items if name in self.common)
        return list(by_set.values())

    def places(self, differences: Sequence[PairDifference]) -> Iterator[ScorerPlace]:
        """
        Yield each scorer's correlation and cluster at each place.
        """
        by_place = grouped(((row.set_name, row.quality), row) for row in differences)
        of_all = {(ALL_SETS, self.quality): self.means}
        for place, values in (self.correlations | of_all).items():
            labels = list(values)
            p_values = pd.DataFrame(1.0, labels, labels)
            for row in by_place.get(place, ()):
                if {row.first, row.second} <= values.keys():
                    p_values.loc[row.first, row.second] = row.p_holm
                    p_values.loc[row.second, row.first] = row.p_holm
            found = clusters(list(values.values()), p_values.to_numpy())
            for label, cluster in zip(labels, found, strict=True):
                yield ScorerPlace(label, *place, values[label], cluster)

    def redundancy(self, places: Iterable[Place]) -> dict[Pair, tuple[float, int]]:
        """
        Return the mean over places of Spearman between the scores of each pair.
        """
        matrix = {}
        for pair in self.pairs:
            items = self.items[pair]
            values = [
                float(np.dot(*map(standard_ranks, items[place].columns)))
                for place in places
                if place in items
            ]
            if values:
                matrix[pair] = (float(np.mean(values)), len(values))
        return matrix

    def best(self, differences: Sequence[PairDifference]) -> BestScorer | None:
        """
        Return the best of the scorers that are not trivial, and whom it beats.

        :param differences: of the means over the common sets.
        """
        about, means = {one.label: one for one in self.bench.scorers}, self.means
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
        trivial = [one.label for one in self.bench.scorers if one.is_trivial]
        rivals = [
            TrivialRival(label, means[label], p_values.get(label), label in beaten)
            for label in trivial
            if label in means
        ]
        most = max((row.n_groups for row in differences), default=0)
        return BestScorer(
            best,
            means[best],
            *self.mean_interval(best),
            _n_items(self.items_of_common_sets(best)),
            self.common,
            fitted_on=[n for n in self.common if n in about[best].fitted_on],
            not_apart=[o for o in chosen if o != best and o not in beaten],
            trivial=sorted(rivals, key=lambda one: -one.spearman),
            without=[label for label in trivial if label not in means],
            qualities=self.other_qualities,
            too_few=most if len(differences) * 2.0 ** (1 - most) >= LEVEL else None,
        )

    @property
    def other_qualities(self) -> list[str]:
        """
        The qualities that are compared on the common sets; none if they are the overall
        ones.
        """
        places = [place for place in self.correlations if place[0] in self.common]
        if {*places} <= {(one.name, one.overall) for one in self.bench.sets}:
            return []
        return list(dict.fromkeys(quality for _, quality in places))

    def mean_interval(self, label: str) -> tuple[float | None, float | None]:
        """
        Return the 95 % interval of a scorer's mean over the common sets. Contexts are
        drawn anew in each set, the same ones for all its qualities; of one set it is
        the interval of the bench's table.
        """
        bootstraps, means = self.bench.bootstraps, []
        for place, of_set in enumerate(self.items_of_common_sets(label)):
            sampling = Sampling(bootstraps, self.bench.seed + place)
            drawn = [_drawn_spearman(items, sampling) for items in of_set]
            means.append(np.mean(drawn, axis=0))
        draws = np.mean(means, axis=0)
        draws = draws[~np.isnan(draws)]
        if 2 * len(draws) < bootstraps or np.ptp(draws) < 1e-12:
            return None, None
        return percentile_ends(draws)


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
    return PairDifference(
        *pair,
        *place,
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


def _drawn_spearman(items: CommonItems, sampling: Sampling) -> Floats:
    """
    Return Spearman of each resample of contexts, NaN where there are too few different
    ones.
    """
    draws, end = np.full(sampling.bootstraps, np.nan), 0
    for weights in group_weights(items.groups, sampling):
        begin, end = end, end + len(weights)
        draws[begin:end] = weighted_spearman(items.columns[0], items.human, weights)
    return draws


def comparison_data(result: BenchComparison) -> JsonObject:
    """
    Return a comparison as plain data for a file; infinity is a text.
    """
    return {
        'schema': 2,
        'quality': result.quality,
        'scorers': result.scorers,
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
