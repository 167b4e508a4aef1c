"""
The pages of a bench: a matrix for each level, and the comparison of its scorers; and
a picture of how the scorers correlate.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parlai_ext.bench.agreement_rows import agreement_rows_table
from parlai_ext.bench.bench_files import Bench, SetPoints
from parlai_ext.bench.bench_table import LEVELS, level_table, sets_of_level
from parlai_ext.bench.compare import ALL_SETS, BenchComparison, PairDifference
from parlai_ext.bench.compare_table import (
    best_sentence,
    ceiling_table,
    cluster_members,
    difference_table,
    place_name,
    places_by_set,
    redundancy_table,
)
from parlai_ext.core.display import number
from parlai_ext.ranking.agreement import known_spearman
from parlai_ext.ranking.comparison import LEVEL
from parlai_ext.store.atomic import write_file
from parlai_ext.view.page import render_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BENCH_PAGE, COMPARISON_PAGE = 'bench.html', 'comparisons.html'


def write_page(path: Path, page: str) -> Path:
    """
    Write a page and return its path.
    """
    write_file(path, page.encode())
    return path


def render_bench_page(bench: Bench, closing: str = '') -> str:
    """
    Return the page of a bench as one HTML file.

    :param closing: the sentence that says which scorer agrees best with people.
    """
    return render_page(
        'bench.html.j2',
        bench=bench,
        closing=closing,
        levels=[
            (title, level_table(bench, level))
            for level, title in LEVELS.items()
            if sets_of_level(bench, level)
        ],
        details=[
            (one, agreement_rows_table(bench.rows, one.name)) for one in bench.sets
        ],
    )


def render_comparison_page(result: BenchComparison) -> str:
    """
    Return the page of a comparison as one HTML file, what is over all sets first.
    """
    overall = place_name(ALL_SETS, result.quality)
    places = dict(places_by_set(result))
    differences: dict[str, list[PairDifference]] = {}
    for (set_name, quality), rows in groupby(
        result.differences, key=lambda row: (row.set_name, row.quality)
    ):
        differences.setdefault(place_name(set_name, quality), []).extend(rows)

    def overall_first(name: str) -> bool:
        return name != overall

    return render_page(
        'comparison.html.j2',
        result=result,
        closing=best_sentence(result.best),
        overall=overall,
        places={
            name: list(cluster_members(places[name]))
            for name in sorted(places, key=overall_first)
        },
        tables={
            name: _differences(differences[name])
            for name in sorted(differences, key=overall_first)
        },
        ceilings=ceiling_table(result),
        redundancy=redundancy_table(result),
    )


def correlation_figure(points: Sequence[SetPoints]) -> Figure:
    """
    Draw Spearman between the main scores of each two scorers, over all items of these
    sets together, as Figure 1 of DSTC10 Track 5 (Zhang et al. 2022) does of its
    submissions.

    :return: a figure of matplotlib, bound to no window; `savefig` writes it.
    """
    from matplotlib.figure import Figure  # it takes long

    labels = list(dict.fromkeys(label for one in points for label in one.scores))
    table = [
        np.array(
            [
                np.nan if value is None else value
                for one in points
                for value in one.scores.get(label, [None] * len(one.groups))
            ]
        )
        for label in labels
    ]
    rows = [[known_spearman(left, right) for right in table] for left in table]
    size = 2 + 0.4 * len(labels)
    figure = Figure(figsize=(size + 1, size), layout='constrained')
    axes = figure.add_subplot()
    matrix = np.array(rows, dtype=float)
    image = axes.imshow(matrix, vmin=-1, vmax=1, cmap='RdBu_r')
    for y, row in enumerate(rows):
        for x, value in enumerate(row):
            axes.text(x, y, number(value), ha='center', va='center', fontsize=7)
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    n_items = sum(len(one.groups) for one in points)
    figure.colorbar(image, label=f'Spearman over {n_items} items of {len(points)} sets')
    return figure


def _differences(rows: list[PairDifference]) -> dict[str, Any]:
    """
    Return the differences beyond chance, those by either test, how many others there
    are, and whether and why not Williams' test was made.
    """
    beyond = [
        row
        for row in rows
        if row.p_holm < LEVEL or (row.williams_p is not None and row.williams_p < LEVEL)
    ]
    beyond.sort(key=lambda row: (row.p_holm, -abs(row.difference)))
    return {
        'differences': difference_table(beyond),
        'n_others': len(rows) - len(beyond),
        'reason': rows[0].williams_reason,
    }
