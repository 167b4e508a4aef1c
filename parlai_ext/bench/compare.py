"""
Which scorers of a bench differ, on each set and over all, and which say the same.

Compared are main scores with the overall quality of a set (where it has none, with its
first), over the items that both scorers scored. A p-value of a pair of scorers is
adjusted for the sets on which that pair is compared (Holm), one over all sets together
for all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from parlai_ext.bench.bench_files import Bench, SetPoints, read_bench, read_points
from parlai_ext.core.errors import UserError
from parlai_ext.files.csv_file import spreadsheet_csv
from parlai_ext.ranking.agreement import pearson
from parlai_ext.ranking.comparison import (
    PERMUTATIONS,
    Ceiling,
    annotator_ceiling,
    clusters,
    group_sums,
    holm,
    rank_products,
    standard_ranks,
    swap_test,
    williams_test,
)
from parlai_ext.ranking.table import Floats

ALL_SETS = 'all sets'
FEWEST_ITEMS = 10
NOT_INDEPENDENT = 'items of one {} are alike; the test needs independent ones'


@dataclass(frozen=True)
class PairDifference:
    """
    The difference of two scorers' Spearman correlations with people on one set.

    :param set_name: the set, or `ALL_SETS` for the mean over sets.
    :param n, n_groups: items that both scored, and contexts or dialogues of them.
    :param p: of the paired permutation test; `p_holm` is adjusted for several tests.
    :param williams_t, williams_p: of Pearson's r, where items are independent;
        `williams_reason` says why not.
    """

    first: str
    second: str
    set_name: str
    n: int
    n_groups: int
    difference: float
    p: float
    p_holm: float
    williams_t: float | None = None
    williams_p: float | None = None
    williams_reason: str | None = None


@dataclass(frozen=True)
class ScorerPlace:
    """
    A scorer's correlation on a set, and its cluster: those of one cluster cannot be
    told apart.
    """

    scorer: str
    set_name: str
    spearman: float
    cluster: int


@dataclass(frozen=True)
class SetCeiling:
    """
    How well annotators of one quality of a set agree.
    """

    set_name: str
    quality: str
    ceiling: Ceiling


@dataclass(frozen=True)
class BenchComparison:
    """
    What `compare_bench` returns.

    :param redundancy: mean over sets of Spearman between the scores of two scorers, and
        on how many sets.
    """

    differences: tuple[PairDifference, ...]
    places: tuple[ScorerPlace, ...]
    ceilings: tuple[SetCeiling, ...]
    redundancy: Mapping[tuple[str, str], tuple[float, int]]
    scorers: tuple[str, ...]


def compare_bench(
    folder: Path,
    *,
    sets: Sequence[str] | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> BenchComparison:
    """
    Compare the scorers of the bench in a folder.

    :param sets: those on which they are compared (`None`: all).
    :raises UserError: when there is no bench, or nothing to compare.
    """
    bench = read_bench(folder)
    names = [one.name for one in bench.sets if sets is None or one.name in sets]
    points = [read_points(folder, name) for name in names]
    scorers = _scorers_with_scores(bench, points)
    if len(scorers) < 2:
        raise UserError(f'{folder}: two scorers with scores are needed')
    pairs = list(combinations(scorers, 2))
    parts = {
        (*pair, one.set_name): made
        for one in points
        for pair in pairs
        if (made := _pair_parts(one, *pair)) is not None
    }
    differences = [
        *_set_differences(points, pairs, parts, permutations, seed),
        *_overall_differences(pairs, parts, permutations, seed),
    ]
    return BenchComparison(
        tuple(differences),
        tuple(_places(points, scorers, differences)),
        tuple(_ceilings(points)),
        _redundancy(points, pairs),
        tuple(scorers),
    )


def _scorers_with_scores(bench: Bench, points: Sequence[SetPoints]) -> list[str]:
    """
    Return the labels of scorers that differ somewhere, trivial ones last.
    """
    ordered = sorted(bench.scorers, key=lambda scorer: scorer.is_trivial)
    return [
        scorer.label
        for scorer in ordered
        if any(_common(one, [scorer.label]) is not None for one in points)
    ]


@dataclass(frozen=True)
class CommonItems:
    """
    The items that several scorers and people scored: ``columns`` of the scorers.
    """

    columns: Floats
    human: Floats
    groups: tuple[int, ...]


def _common(one: SetPoints, scorers: Sequence[str]) -> CommonItems | None:
    """
    Return the items that these scorers and people scored; `None` if they are too few,
    or all values of one are equal.
    """
    if any(label not in one.scores for label in scorers):
        return None
    columns = [one.scores[label] for label in scorers]
    human = one.human[compared_quality(one)]
    rows = [
        (k, *values)
        for k, values in enumerate(zip(human, *columns, strict=True))
        if None not in values
    ]
    if len(rows) < FEWEST_ITEMS:
        return None
    places, *sides = zip(*rows, strict=True)
    if any(min(side) == max(side) for side in sides):
        return None
    numbers = np.array(sides, dtype=np.float64)
    return CommonItems(numbers[1:], numbers[0], tuple(one.groups[k] for k in places))


def compared_quality(one: SetPoints) -> str:
    """
    Return the quality by which scorers are compared: the overall one, else the first.
    """
    return one.overall or next(iter(one.human))


@dataclass(frozen=True)
class PairParts:
    """
    The two correlations of a pair on a set, and the parts of their difference.
    """

    items: CommonItems
    parts: Floats

    @property
    def difference(self) -> float:
        """
        Return the difference of the two correlations.
        """
        return float(self.parts.sum())


def _pair_parts(one: SetPoints, first: str, second: str) -> PairParts | None:
    items = _common(one, [first, second])
    if items is None:
        return None
    a, b = (rank_products(column, items.human) for column in items.columns)
    return PairParts(items, group_sums(a - b, items.groups))


def _set_differences(
    points: Sequence[SetPoints],
    pairs: Sequence[tuple[str, str]],
    parts: Mapping[tuple[str, str, str], PairParts],
    permutations: int,
    seed: int,
) -> Iterator[PairDifference]:
    """
    Yield the differences of each pair on each set, adjusted over the sets.
    """
    for first, second in pairs:
        known = [one for one in points if (first, second, one.set_name) in parts]
        made = [parts[first, second, one.set_name] for one in known]
        p_values = [swap_test(one.parts, permutations, seed) for one in made]
        for one, pair, p, adjusted in zip(
            known, made, p_values, holm(p_values), strict=True
        ):
            yield PairDifference(
                *(first, second, one.set_name),
                *(len(pair.items.human), len(pair.parts)),
                *(pair.difference, p, adjusted),
                **_williams(one, pair.items),
            )


def _williams(one: SetPoints, items: CommonItems) -> dict[str, Any]:
    """
    Return Williams' test of a pair, or why it does not apply.
    """
    if one.unit != 'item':
        return {'williams_reason': NOT_INDEPENDENT.format(one.unit)}
    rows = np.array([items.human, *items.columns])
    first, second, between = (
        float(pearson(rows[[i]], rows[[j]])[0]) for i, j in ((0, 1), (0, 2), (1, 2))
    )
    t, p = williams_test(first, second, between, len(items.human))
    return {'williams_t': t, 'williams_p': p}


def _overall_differences(
    pairs: Sequence[tuple[str, str]],
    parts: Mapping[tuple[str, str, str], PairParts],
    permutations: int,
    seed: int,
) -> list[PairDifference]:
    """
    Return the differences of the means over sets, adjusted over the pairs; contexts of
    all sets are swapped at once.
    """
    rows = []
    for first, second in pairs:
        made = [one for key, one in parts.items() if key[:2] == (first, second)]
        if not made:
            continue
        joined = np.concatenate([one.parts / len(made) for one in made])
        n = sum(len(one.items.human) for one in made)
        p = swap_test(joined, permutations, seed)
        about = (n, len(joined), float(joined.sum()), p, p)
        rows.append(PairDifference(first, second, ALL_SETS, *about))
    adjusted = holm([row.p for row in rows])
    return [
        replace(row, p_holm=p, williams_reason='the sets have other items')
        for row, p in zip(rows, adjusted, strict=True)
    ]


def _places(
    points: Sequence[SetPoints],
    scorers: Sequence[str],
    differences: Sequence[PairDifference],
) -> Iterator[ScorerPlace]:
    """
    Yield each scorer's correlation and cluster on each set, and over the sets on which
    all of those compared have scores.
    """
    spearman: dict[str, dict[str, float]] = {}
    for one in points:
        for label in scorers:
            items = _common(one, [label])
            if items is not None:
                rho = float(rank_products(items.columns[0], items.human).sum())
                spearman.setdefault(one.set_name, {})[label] = rho
    sets = list(spearman)
    # a mean over other sets is no comparison
    everywhere = [s for s in scorers if all(s in spearman[name] for name in sets)]
    if sets:
        spearman[ALL_SETS] = {
            label: float(np.mean([spearman[name][label] for name in sets]))
            for label in everywhere
        }
    for set_name, values in spearman.items():
        labels = list(values)
        p_values = np.ones((len(labels), len(labels)))
        place = {label: k for k, label in enumerate(labels)}
        for row in differences:
            if row.set_name == set_name and {row.first, row.second} <= set(labels):
                i, j = place[row.first], place[row.second]
                p_values[i, j] = p_values[j, i] = row.p_holm
        for label, cluster in zip(
            labels, clusters(list(values.values()), p_values), strict=True
        ):
            yield ScorerPlace(label, set_name, values[label], cluster)


def _ceilings(points: Sequence[SetPoints]) -> Iterator[SetCeiling]:
    """
    Yield the ceilings of every quality whose annotators are kept one by one.
    """
    for one in points:
        for quality, numbers in one.annotators.items():
            if any(len(given) > 1 for given in numbers):
                ceiling = annotator_ceiling(numbers)
                yield SetCeiling(one.set_name, quality, ceiling)


def _redundancy(
    points: Sequence[SetPoints], pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], tuple[float, int]]:
    """
    Return the mean over sets of Spearman between the scores of each pair.
    """
    matrix = {}
    for pair in pairs:
        values = [
            float(standard_ranks(items.columns[0]) @ standard_ranks(items.columns[1]))
            for one in points
            if (items := _common(one, pair)) is not None
        ]
        if values:
            matrix[pair] = (float(np.mean(values)), len(values))
    return matrix


def differences_csv(differences: Sequence[PairDifference]) -> str:
    """
    Return the differences as CSV.
    """
    names = list(PairDifference.__dataclass_fields__)
    rows = ([getattr(row, name) for name in names] for row in differences)
    return spreadsheet_csv([names, *rows])


def comparison_data(result: BenchComparison) -> dict[str, Any]:
    """
    Return a comparison as plain data for a file; infinity is a text.
    """
    return {
        'schema': 1,
        'scorers': list(result.scorers),
        'differences': [
            {k: str(v) if v in (np.inf, -np.inf) else v for k, v in vars(row).items()}
            for row in result.differences
        ],
        'places': [vars(place) for place in result.places],
        'ceilings': [
            {'set': one.set_name, 'quality': one.quality, **vars(one.ceiling)}
            for one in result.ceilings
        ],
        'redundancy': [
            {'first': a, 'second': b, 'spearman': rho, 'sets': n}
            for (a, b), (rho, n) in result.redundancy.items()
        ],
    }
