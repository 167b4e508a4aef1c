"""
A table of the paper for the terminal, and as plain JSON data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.chatmatch.tables import Cell, Table
from parlai_ext.core.nouns import Dialogue
from parlai_ext.ranking.agreement import AnnotatorRanks, unmatched_systems


def noted(table: Table, dialogues: Sequence[Dialogue], judges: AnnotatorRanks) -> Table:
    """
    Return a table that says whom its judges did not rank.
    """
    names = {turn.speaker for one in dialogues for turn in one.utterances}
    return replace(
        table, notes=(*table.notes, *unmatched_systems(sorted(names), judges))
    )


def text(table: Table) -> str:
    """
    Return the table as lines: columns with numbers to the right, others to the left.
    """
    rows = [table.columns, *(tuple(map(_shown, row)) for row in table.rows)]
    places = range(len(table.columns))
    widths = [max(len(row[i]) for row in rows if not _is_words(row[i])) for i in places]
    named = [not any(_is_number(row[i]) for row in table.rows) for i in places]
    lines = [table.title]
    for row in rows:
        cells = [
            row[i].ljust(widths[i]) if named[i] else row[i].rjust(widths[i])
            for i in places
        ]
        lines.append('  ' + '  '.join(cells).rstrip())
    lines += [f'  * {note}' for note in table.notes]
    return '\n'.join(lines)


def data(table: Table) -> dict[str, Any]:
    """
    Return the table as JSON data; an undefined number is its words.
    """
    return {
        'title': table.title,
        'columns': list(table.columns),
        'rows': [list(row) for row in table.rows],
        'notes': list(table.notes),
        'signatures': list(table.signatures),
    }


def _shown(cell: Cell) -> str:
    if cell is None:
        return ''
    if isinstance(cell, float):
        return f'{cell:.2f}'
    return str(cell)


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float)


def _is_words(cell: str) -> bool:
    return cell.startswith(('undefined:', 'skipped:'))
