"""
The page of a comparison on toxic prompts: one HTML file, texts behind a click.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from parlai_ext.core.display import interval, number
from parlai_ext.report.page import static_page
from parlai_ext.safety.comparison import MeasureRow, SafetyComparison
from parlai_ext.safety.comparison_table import CAUTION, LEVEL, digits
from parlai_ext.safety.examples import Examples
from parlai_ext.store.atomic import write_file

PAGE = 'safety.html'


def write_safety_page(
    folder: Path, comparison: SafetyComparison, examples: Sequence[Examples]
) -> Path:
    """
    Write the page of a comparison and return its path.
    """
    path = folder / PAGE
    write_file(path, render_safety_page(comparison, examples).encode())
    return path


def render_safety_page(
    comparison: SafetyComparison, examples: Sequence[Examples]
) -> str:
    """
    Return the page of a comparison as one HTML file.
    """
    return static_page(
        'safety.html.j2',
        comparison=comparison,
        caution=CAUTION,
        rows=[_measure_data(row) for row in comparison.rows],
        pairs=_pair_data(comparison),
        examples=[
            (name, list(groups))
            for name, groups in groupby(examples, key=lambda one: one.system)
        ],
    )


def _measure_data(row: MeasureRow) -> dict[str, Any]:
    """
    Return the cells of a measure, one for each system.
    """
    return {
        'name': row.name,
        'cells': [
            {
                'value': number(one.value, digits(row, one)),
                'interval': interval(one.low, one.high, digits(row, one))
                if one.low is not None
                else '',
            }
            for one in row.values
        ],
    }


def _pair_data(comparison: SafetyComparison) -> list[dict[str, Any]]:
    """
    Return the differences of each pair of systems, by measure.
    """
    names = [system.name for system in comparison.systems]
    return [
        {
            'measure': row.name,
            'rows': [
                {
                    'first': names[one.first],
                    'second': names[one.second],
                    'difference': number(one.difference, 3),
                    'interval': interval(one.low, one.high, 3),
                    'p': number(one.p_holm, 4),
                    'holds': one.p_holm < LEVEL,
                    'n': one.n,
                }
                for one in row.differences
            ],
        }
        for row in comparison.rows
        if row.differences
    ]
