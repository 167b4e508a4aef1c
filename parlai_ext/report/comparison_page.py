"""
The page of `compare_metrics`: clusters, differences, ceilings and redundancy.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from parlai_ext.report.page import static_page
from parlai_ext.store.atomic import write_file

PAGE = 'comparisons.html'


def write_comparison_page(folder: Path, result: BenchComparison) -> Path:
    """
    Write the page of a comparison and return its path.
    """
    path = folder / PAGE
    write_file(path, render_comparison_page(result).encode())
    return path


def render_comparison_page(result: BenchComparison) -> str:
    """
    Return the page of a comparison as one HTML file.
    """
    differences: dict[str, list[PairDifference]] = {}
    for row in result.differences:
        name = place_name(row.set_name, row.quality)
        differences.setdefault(name, []).append(row)
    places = {
        name: list(cluster_members(places)) for name, places in places_by_set(result)
    }
    overall = place_name(ALL_SETS, result.quality)
    return static_page(
        'comparison.html.j2',
        result=result,
        closing=best_sentence(result.best),
        overall=overall,
        # over all sets first
        places=dict(sorted(places.items(), key=lambda item: item[0] != overall)),
        tables={
            name: _table(differences[name])
            for name in sorted(differences, key=lambda name: name != overall)
        },
        ceilings=ceiling_table(result),
        redundancy=redundancy_table(result),
    )


def _table(rows: list[PairDifference]) -> dict[str, Any]:
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
