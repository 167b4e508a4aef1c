"""
The page of a bench: one self-contained HTML file with a matrix for each level.
"""

from __future__ import annotations

from pathlib import Path

from parlai_ext.bench.agreement_rows import agreement_rows_table
from parlai_ext.bench.bench_files import Bench
from parlai_ext.bench.bench_table import LEVELS, level_table, sets_of_level
from parlai_ext.report.page import static_page
from parlai_ext.store.atomic import write_file

PAGE = 'bench.html'


def write_bench_page(folder: Path, bench: Bench, closing: str = '') -> Path:
    """
    Write the page of a bench and return its path.
    """
    path = folder / PAGE
    write_file(path, render_bench_page(bench, closing).encode())
    return path


def render_bench_page(bench: Bench, closing: str = '') -> str:
    """
    Return the page of a bench as one HTML file.

    :param closing: the sentence that says which scorer agrees best with people.
    """
    return static_page(
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
