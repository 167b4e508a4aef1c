"""
The leaderboard as CSV and as a table for the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from parlai_ext.core.display import (
    WIDTH,
    digits_for,
    one_line,
    pad_cell,
    spreadsheet_text,
    terminal_width,
    wrap_lines,
)
from parlai_ext.core.floors import is_floor
from parlai_ext.ranking.standings import best_first
from parlai_ext.report import judge, stopping, tournament
from parlai_ext.report.columns import (
    COLUMNS,
    LeaderboardRow,
    TerminalColumn,
    csv_columns,
)
from parlai_ext.report.frames import leaderboard_frame
from parlai_ext.report.summary import (
    NO_DOUBTS,
    agreement_text,
    baseline_words,
    coefficient_text,
    sentences,
    warnings,
)
from parlai_ext.results.ranking import Ranking

if TYPE_CHECKING:
    from parlai_ext.report.audit_doubt import Doubts


def leaderboard_csv(ranking: Ranking) -> str:
    """
    Return the leaderboard as CSV that a spreadsheet can open without harm.
    """
    frame = leaderboard_frame(ranking)
    for column in csv_columns():
        if column.kind == 'text':
            frame[column.name] = [spreadsheet_text(cell) for cell in frame[column.name]]
    return frame.to_csv(index=False, lineterminator='\n', na_rep='')


def terminal_table(ranking: Ranking, doubts: Doubts = NO_DOUBTS) -> str:
    """
    Return the card of the judge and the ranking for a terminal, 88 columns at most.

    :param doubts: what the audit says against the ranking.
    """
    doubt = next((doubts[d] for d in ranking.dimensions[:1] if d in doubts), None)
    lines = [*judge.terminal_lines(ranking, doubt), '']
    for dimension in ranking.dimensions:
        lines += [*_dimension_lines(ranking, dimension), '']
    if ranking.tournament is not None:
        lines += [*tournament.terminal_lines(ranking.tournament), '']
        for note in tournament.notes(ranking.tournament):
            lines += wrap_lines(f'note: {note}')
    if ranking.stopping is not None:
        lines += [*stopping.terminal_lines(ranking.stopping), '']
    lines += _closing_lines(ranking)
    return '\n'.join(lines).rstrip('\n')


def terminal_report(ranking: Ranking, doubts: Doubts = NO_DOUBTS) -> str:
    """
    Return the table for a terminal and, below it, the most important sentence; where
    that is a doubt of the audit, the next one, too.
    """
    has_doubt = bool(doubts.keys() & ranking.dimensions[:1])
    shown = sentences(ranking, doubts)[: 2 if has_doubt else 1]
    lines = [line for sentence in shown for line in wrap_lines(sentence)]
    return '\n'.join([terminal_table(ranking, doubts), '', *lines])


def _dimension_lines(ranking: Ranking, dimension: str) -> Iterator[str]:
    """
    Yield the lines of one dimension: ranked systems, reference, unranked ones.
    """
    standings = best_first(ranking.standings[dimension])
    digits = digits_for([standing.score for standing in standings])
    rows = [LeaderboardRow(ranking, standing, digits) for standing in standings]
    yield pad_cell(one_line(dimension), WIDTH).rstrip()
    if failure := judge.failure_on(ranking, dimension):
        yield from wrap_lines(failure, '  ')
    yield from _table_lines(rows)
    yield from _agreement_lines(ranking, dimension)
    for row in rows:
        if row.standing.rank is None:
            line = f'not ranked: {row.standing.system} ({row.why_unranked})'
            yield from wrap_lines(line, '  ')


def _table_lines(rows: Sequence[LeaderboardRow]) -> Iterator[str]:
    """
    Yield the head of the table and a line for each ranked system.
    """
    columns = [
        column.terminal
        for column in COLUMNS
        if column.terminal and any(column.terminal.text(row).strip() for row in rows)
    ]
    widths = [_column_width(column, rows) for column in columns]

    def line(texts: Iterator[str]) -> str:
        cells = (
            _aligned(text, width, column)
            for text, width, column in zip(texts, widths, columns, strict=True)
        )
        return '  ' + '  '.join(cells)

    yield line(column.title for column in columns)
    for row in rows:
        if row.standing.rank is not None:
            yield line(column.text(row).strip() for column in columns)


def _column_width(column: TerminalColumn, rows: Sequence[LeaderboardRow]) -> int:
    if not column.cut:
        return column.width
    widths = [terminal_width(column.text(row)) for row in rows]
    return min(column.width, max([len(column.title), *widths]))


def _aligned(text: str, width: int, column: TerminalColumn) -> str:
    if column.cut:
        return pad_cell(text, width)
    return text.rjust(width) if column.right else text.ljust(width)


def _agreement_lines(ranking: Ranking, dimension: str) -> Iterator[str]:
    """
    Yield how well the scorer, and each trivial baseline, agrees with the reference.
    """
    agreement = ranking.reference.get(dimension)
    if agreement is None:
        return
    yield from wrap_lines(agreement_text(agreement), '  ')
    if not ranking.baseline_reference:
        return
    name = ranking.leading_coefficient(dimension)
    parts = []
    for baseline, by_dimension in ranking.baseline_reference.items():
        scorers_agreement = by_dimension.get(dimension)
        is_defined = (
            scorers_agreement is not None
            and getattr(scorers_agreement, name).value is not None
        )
        shown = (
            coefficient_text(getattr(scorers_agreement, name)) if is_defined else '–'
        )
        parts.append(f'{baseline_words(baseline)} {shown}')
    kind = 'trivial, Kendall' if name == 'kendall' else 'trivial'
    yield from wrap_lines(f'{kind}: {", ".join(parts)}', '  ')


def _closing_lines(ranking: Ranking) -> Iterator[str]:
    """
    Yield what concerns all dimensions: floors, notes, warnings.
    """
    names = {
        standing.system for rows in ranking.standings.values() for standing in rows
    }
    if any(is_floor(name) for name in names):
        yield '* a floor: bad on purpose, no part of any claim about systems'
    if ranking.incomparable_systems:
        yield '† not comparable: the judge read its contexts in part only'
    for note in ranking.notes:
        yield from wrap_lines(f'note: {note}')
    for warning in warnings(ranking):
        if 'is not ranked' not in warning:  # listed above already
            yield from wrap_lines(f'caution: {warning}')
