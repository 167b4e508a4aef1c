"""
The agreement of a scorer with people as a table for a terminal, and as CSV.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import SimpleNamespace
from typing import Any

from parlai_ext.core.display import wrap_lines
from parlai_ext.view.table import Column, IntervalColumn, Table, number_column

COEFFICIENTS = {'spearman': 'Spearman', 'pearson': 'Pearson'}
LEVELS = {'dialogue': 'dialogue by dialogue', 'system': 'system by system'}


def _coefficient(key: str, row: Mapping[str, Any]) -> SimpleNamespace:
    return SimpleNamespace(**row[key])


COLUMNS = (
    Column('level', of=itemgetter('level')),
    Column('dimension', '', itemgetter('dimension')),
    Column('variant', '', itemgetter('variant')),
    number_column('n', 'n', itemgetter('n')),
    number_column('dropped', 'no score', itemgetter('dropped')),
    *(
        IntervalColumn(key, word, partial(_coefficient, key), digits=3)
        for key, word in COEFFICIENTS.items()
    ),
    Column('reason', of=lambda row: row.get('reason', '')),
)


def agreement_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """
    Return the table of the rows of an agreement.
    """
    return Table(COLUMNS, rows)


def agreement_lines(agreement: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield the tables for a terminal: one for each level.
    """
    for level, title in LEVELS.items():
        rows = [row for row in agreement['rows'] if row['level'] == level]
        if rows:
            yield f'agreement with people, {title}; in brackets: 95 % interval'
            yield from agreement_table(rows).lines()
        for row in rows:
            if 'reason' in row:
                line = f'{row["dimension"]}, {row["variant"]}: {row["reason"]}'
                yield from wrap_lines(line, '  ')
    for note in agreement['notes']:
        yield from wrap_lines(f'note: {note}')
