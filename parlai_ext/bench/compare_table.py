"""
A comparison of scorers as text for a terminal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from parlai_ext.bench.compare import ALL_SETS, BenchComparison, ScorerPlace
from parlai_ext.core.display import DASH, join_names, number, pad_cell, wrap_lines

LABEL_WIDTH = 30


def comparison_lines(result: BenchComparison) -> Iterator[str]:
    """
    Yield the clusters of each set, then ceilings, differences and redundancy.
    """
    yield 'Clusters: every scorer of a cluster beats every one of a later cluster'
    yield '(paired permutations within contexts, Holm over sets, 5 %)'
    by_set = groupby(result.places, key=lambda place: place.set_name)
    for set_name, places in by_set:
        yield from _cluster_lines(set_name, list(places))
    yield ''
    yield from _ceiling_lines(result)
    yield from _difference_lines(result)
    yield from _redundancy_lines(result)


def _cluster_lines(set_name: str, places: list[ScorerPlace]) -> Iterator[str]:
    """
    Yield the clusters of one set, the best first.
    """
    yield f'{set_name}'
    ordered = sorted(places, key=lambda place: (place.cluster, -place.spearman))
    for cluster, members in groupby(ordered, key=lambda place: place.cluster):
        texts = [f'{one.scorer} {number(one.spearman)}' for one in members]
        yield from wrap_lines(f'{cluster}. {", ".join(texts)}', '  ')


def _ceiling_lines(result: BenchComparison) -> Iterator[str]:
    """
    Yield how well annotators agree, where they are kept one by one.
    """
    if not result.ceilings:
        yield 'No set keeps its annotators one by one: no ceiling is known.'
        return
    yield 'Ceilings: one annotator and the others’ mean; a perfect scorer and the mean'
    for one in result.ceilings:
        label = pad_cell(f'{one.set_name}: {one.quality}', 44)
        single, top = number(one.ceiling.single), number(one.ceiling.ceiling)
        yield f'  {label} {single:>6} {top:>6}  (n {one.ceiling.n})'
    yield ''


def _difference_lines(result: BenchComparison) -> Iterator[str]:
    """
    Yield the differences of means over sets, and where Williams' test applies.
    """
    overall = [row for row in result.differences if row.set_name == ALL_SETS]
    if not overall:
        return
    yield 'Differences of mean Spearman on common sets (permutations, Holm over pairs)'
    for row in sorted(overall, key=lambda row: row.p_holm):
        pair = pad_cell(f'{row.first} − {row.second}', 56)
        yield f'  {pair} {number(row.difference):>6}  p {number(row.p_holm, 4)}'
    tested = [row for row in result.differences if row.williams_t is not None]
    if tested:
        sets = list(dict.fromkeys(row.set_name for row in tested))
        yield from wrap_lines(
            f'Williams’ test (Pearson’s r) applies to {join_names(sets)}, whose items '
            'are independent; its t and p are in comparisons.csv'
        )
    else:
        yield from wrap_lines(
            'Williams’ test applies to no set: items of one context or dialogue are '
            'alike'
        )
    yield ''


def _redundancy_lines(result: BenchComparison) -> Iterator[str]:
    """
    Yield the matrix of Spearman between scorers, means over sets.
    """
    yield 'Redundancy: Spearman between the scores of two scorers, mean over sets'
    labels = result.scorers
    yield f'  {"":{LABEL_WIDTH}}' + ''.join(
        f'{k:>6}' for k in range(1, len(labels) + 1)
    )
    for k, first in enumerate(labels, 1):
        cells = []
        for second in labels:
            known = result.redundancy.get((first, second)) or result.redundancy.get(
                (second, first)
            )
            cells.append(number(known[0]) if known else DASH)
        name = pad_cell(f'{k} {first}', LABEL_WIDTH)
        yield f'  {name}' + ''.join(f'{cell:>6}' for cell in cells)
