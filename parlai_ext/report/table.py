"""
The leaderboard as CSV, as a table for the terminal, and on the page: with whether
something trivial would have done as well, and what failed.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from parlai_ext.judge_check import section as judge
from parlai_ext.ranking.standings import Standing
from parlai_ext.report.columns import (
    COLUMNS,
    PAGE,
    TERMINAL,
    LeaderboardColumn,
    LeaderboardRow,
    file_table,
    leaderboard_rows,
)
from parlai_ext.report.plot import Axis, axis_for
from parlai_ext.report.summary import (
    NO_DOUBTS,
    agreement_text,
    baseline_words,
    coefficient_text,
    sentences,
    warnings,
)
from parlai_ext.report.view import Doubts, RankingView
from parlai_ext.results.ranking import Agreement, Ranking
from parlai_ext.stopping import section as stopping
from parlai_ext.tournament import section as tournament
from parlai_ext.view.page import Section
from parlai_ext.view.table import Table
from parlai_ext.view.text import DASH, WIDTH, one_line, pad_cell, wrap_lines


def leaderboard_csv(ranking: Ranking) -> str:
    """
    Return the leaderboard as CSV that a spreadsheet can open without harm.
    """
    return file_table(ranking).csv()


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
        lines += tournament.terminal_lines(ranking.tournament)
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
    yield pad_cell(one_line(dimension), WIDTH).rstrip()
    if failure := judge.failure_on(ranking, dimension):
        yield from wrap_lines(failure, '  ')
    rows = leaderboard_rows(ranking, ranking.standings[dimension])
    ranked = [row for row in rows if row.standing.rank is not None]
    columns = [
        column
        for column in COLUMNS
        if TERMINAL in column.places
        and column.heading
        and (not rows or any(column.cell(row).text != DASH for row in rows))
    ]
    yield from Table(columns, ranked).lines('  ')
    yield from _agreement_lines(ranking, dimension)
    for row in rows:
        if row.standing.rank is None:
            line = f'not ranked: {row.standing.system} ({row.why_unranked})'
            yield from wrap_lines(line, '  ')


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
        own = by_dimension.get(dimension)
        text = coefficient_text(getattr(own, name)) if own else DASH
        parts.append(f'{baseline_words(baseline)} {text}')
    kind = 'trivial, Kendall' if name == 'kendall' else 'trivial'
    yield from wrap_lines(f'{kind}: {", ".join(parts)}', '  ')


def _closing_lines(ranking: Ranking) -> Iterator[str]:
    """
    Yield what concerns all dimensions: floors, notes, warnings.
    """
    if any(one.is_floor for rows in ranking.standings.values() for one in rows):
        yield '* a floor: bad on purpose, no part of any claim about systems'
    if ranking.incomparable_systems:
        yield '† not comparable: the judge read its contexts in part only'
    for note in ranking.notes:
        yield from wrap_lines(f'note: {note}')
    for warning in warnings(ranking):
        if 'is not ranked' not in warning:  # listed above already
            yield from wrap_lines(f'caution: {warning}')


# -------------------------------------------------------------------------- on the page


@dataclass(frozen=True)
class Board:
    """
    The leaderboard of one dimension or baseline as a page draws it.

    :param failure: that the judge failed its check on this dimension.
    """

    name: str
    columns: Sequence[LeaderboardColumn]
    rows: Sequence[LeaderboardRow]
    axis: Axis
    is_rating: bool = False
    reference: Agreement | None = None
    failure: str | None = None


def leaderboards(ranking: Ranking) -> list[Board]:
    """
    Return the leaderboard of each dimension.
    """
    return [
        _board(ranking, name, ranking.standings[name]) for name in ranking.dimensions
    ]


def _board(
    ranking: Ranking,
    name: str,
    standings: Sequence[Standing],
    of_baseline: bool = False,
) -> Board:
    is_rating = not of_baseline and name == ranking.rated_dimension
    columns = [
        column
        for column in COLUMNS
        if PAGE in column.places
        and column.heading is not None
        and not (is_rating and column.rating_heading == '')
    ]
    return Board(
        name,
        columns,
        leaderboard_rows(ranking, standings, of_baseline),
        axis_for(standings),
        is_rating,
        None if of_baseline else ranking.reference.get(name),
        None if of_baseline else judge.failure_on(ranking, name),
    )


def leaderboard_section(view: RankingView) -> Section:
    """
    Return the section with the leaderboard of each dimension.
    """
    return Section('leaderboard', 'Leaderboard', leaderboards(view.ranking))


def agreement_section(view: RankingView) -> Section:
    """
    Return the section that compares the scorer with trivial measures.
    """
    baselines = [
        _board(view.ranking, name, standings, of_baseline=True)
        for name, standings in view.ranking.baselines.items()
    ]
    return Section('agreement', 'Checks', baselines)


def failures_section(view: RankingView) -> Section:
    """
    Return the section about dialogues that were broken off, have no score, or were too
    long.
    """
    bounds = [
        (dimension, standing, own[standing.system])
        for dimension in view.ranking.dimensions
        if (own := view.ranking.bounds.get(dimension))
        for standing in view.ranking.standings[dimension]
        if standing.system in own
    ]
    return Section('failures', 'Failures', bounds)
