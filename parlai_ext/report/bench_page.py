"""
The page of a bench: one self-contained HTML file with a matrix for each level.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from parlai_ext.bench.agreement_rows import COEFFICIENTS, AgreementRow
from parlai_ext.bench.bench_files import Bench, ScorerAbout, SetAbout
from parlai_ext.bench.bench_table import (
    LEVELS,
    mean_over_qualities,
    n_text,
    sets_of_level,
    size_text,
)
from parlai_ext.core.display import number
from parlai_ext.report.page import static_page
from parlai_ext.store.atomic import write_file

PAGE = 'bench.html'
MEAN = 'mean over qualities'


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
            _level_data(bench, level, title)
            for level, title in LEVELS.items()
            if sets_of_level(bench, level)
        ],
        details=[_set_data(bench, one) for one in bench.sets],
        coefficients=[name.capitalize() for name in COEFFICIENTS],
    )


def _level_data(bench: Bench, level: str, title: str) -> dict[str, Any]:
    """
    Return the matrix of one level: sets as rows, scorers as columns.
    """
    sets = sets_of_level(bench, level)
    scorers = sorted(bench.scorers, key=lambda scorer: scorer.is_trivial)
    return {
        'title': title,
        'scorers': scorers,
        'rows': [
            {
                'set': one,
                'size': size_text(one, level),
                'quality': one.overall or MEAN,
                'cells': [_cell(bench, scorer, one, level) for scorer in scorers],
            }
            for one in sets
        ],
    }


def _cell(
    bench: Bench, scorer: ScorerAbout, one: SetAbout, level: str
) -> dict[str, Any]:
    """
    Return Spearman, its interval, n where that is not the set's, and why there is none.
    """
    n = n_text(bench, scorer.label, one, level)
    fitted = one.name in scorer.fitted_on
    if one.overall is None:
        value = mean_over_qualities(bench, scorer.label, one.name, level)
        reason = None if value is not None else 'a quality has no coefficient'
        about = {
            'reason': reason,
            'fitted': fitted,
            'n': n if value is not None else '',
        }
        return {'value': value, 'interval': None, **about}
    row = bench.row(scorer.label, one.name, level)
    if row is None or row.value() is None:
        reason = row.reason if row else 'not scored'
        about = {'reason': reason, 'fitted': fitted, 'n': ''}
        return {'value': None, 'interval': None, **about}
    return {
        'value': row.value(),
        'interval': _interval(row, 'spearman'),
        'reason': None,
        'fitted': fitted,
        'n': n,
    }


def _interval(row: AgreementRow, coefficient: str) -> str | None:
    one = row.correlations[coefficient]
    if one.low is None:
        return None
    return f'[{number(one.low)}, {number(one.high)}]'


def _set_data(bench: Bench, one: SetAbout) -> dict[str, Any]:
    """
    Return all rows of a set for its table.
    """
    rows = [row for row in bench.rows if row.set_name == one.name]
    return {'set': one, 'rows': list(_detail_rows(rows))}


def _detail_rows(rows: list[AgreementRow]) -> Iterator[dict[str, Any]]:
    for row in rows:
        cells = [
            {
                'value': row.value(name),
                'interval': _interval(row, name) if name in row.correlations else None,
            }
            for name in COEFFICIENTS
        ]
        yield {'row': row, 'cells': cells}
