"""
The pages of a bench: a matrix for each level, and the comparison of its scorers.
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

from parlai_ext.bench.agreement_rows import agreement_rows_table
from parlai_ext.bench.bench_files import Bench
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
from parlai_ext.ranking.comparison import LEVEL
from parlai_ext.store.atomic import write_file
from parlai_ext.view.page import render_page

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
