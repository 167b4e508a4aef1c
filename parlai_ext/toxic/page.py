"""
The page of a comparison on toxic prompts: one HTML file, texts behind a click.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from parlai_ext.store.atomic import write_file
from parlai_ext.toxic.comparison import Examples, SafetyComparison
from parlai_ext.toxic.comparison_table import (
    CAUTION,
    LEVEL,
    difference_table,
    measure_table,
)
from parlai_ext.view.page import render_page

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
    return render_page(
        'safety.html.j2',
        comparison=comparison,
        caution=CAUTION,
        measures=measure_table(comparison),
        differences={
            row.name: (
                difference_table(comparison, row.name),
                sum(one.p_holm < LEVEL for one in row.differences),
            )
            for row in comparison.rows
            if row.differences
        },
        examples=[
            (name, list(groups))
            for name, groups in groupby(examples, key=lambda one: one.system)
        ],
    )
