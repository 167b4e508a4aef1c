"""
A tournament for readers: its cross-table, points by dimension and ratings.
"""

from collections.abc import Sequence

from parlai_ext.ranking.games import ENDS
from parlai_ext.report.summary import rating_text, systems_by_rating
from parlai_ext.report.view import RankingView
from parlai_ext.results.ranking import TournamentResult
from parlai_ext.view import Column, Table, number, number_column
from parlai_ext.view.page import Section, terminal_lines, terminal_notes

# what fits into a terminal
MOST_SYSTEMS, MOST_DIMENSIONS = 9, 7
RATING_TITLES = {
    'bradley_terry': 'Bradley–Terry',
    'sum_of_ranks': 'sum of ranks, negated',
}


def size_and_rule(result: TournamentResult) -> str:
    """
    Return the size of a tournament and its rating in one sentence.
    """
    [line] = terminal_lines('tournament_size', result=result)
    return line


def tournament_notes(result: TournamentResult) -> list[str]:
    """
    Return what a reader of the tournament must be told.
    """
    return terminal_notes('tournament_notes', result=result)


def _systems_table(result: TournamentResult, columns: Sequence[Column]) -> Table:
    """
    Return a table with a row for each system, under its place by the rating.
    """
    names = systems_by_rating(result)
    places = {name: place for place, name in enumerate(names, 1)}
    first = Column('system', 'System', show=lambda name: f'{places[name]} {name}')
    return Table([first, *columns], names)


def cross_table(result: TournamentResult) -> Table:
    """
    Return the points of each match, the sums, and what was won, drawn and lost.
    """

    def points(place: int, other: str) -> Column:
        return number_column(other, str(place), lambda n: result.cross_table[n][other])

    def record(unit: str, heading: str) -> Column:
        return number_column(
            unit,
            heading,
            lambda n: '–'.join(str(result.records[n][f'{unit}_{end}']) for end in ENDS),
        )

    opponents = enumerate(systems_by_rating(result), 1)
    return _systems_table(
        result,
        [
            *(points(place, other) for place, other in opponents),
            number_column('sum', 'Sum', result.total_points),
            record('games', 'Games w–d–l'),
            record('matches', 'Matches w–d–l'),
            number_column('rating', 'Rating', lambda name: rating_text(result, name)),
        ],
    )


def points_table(result: TournamentResult) -> Table:
    """
    Return the points of each dimension, over all games.
    """

    def points(dimension: str) -> Column:
        of = result.dimension_points
        return number_column(dimension, dimension, lambda n: of[n][dimension])

    return _systems_table(result, list(map(points, result.dimensions)))


def rating_column(result: TournamentResult, method: str) -> Column:
    """
    Return the column of a rating; whole numbers have no decimals.
    """
    values = result.ratings[method].values
    digits = 2 if any((value or 0) % 1 for value in values.values()) else 0
    title = RATING_TITLES.get(method, method)
    return number_column(method, title, lambda n: number(values.get(n), digits))


def tournament_lines(result: TournamentResult) -> list[str]:
    """
    Return the cross-table and the points by dimension, unless they are too large for a
    terminal, and the notes.
    """
    tables = {}
    if (
        len(result.systems) <= MOST_SYSTEMS
        and len(result.dimensions) <= MOST_DIMENSIONS
    ):
        tables['points of each match'] = cross_table(result)
        tables['points of each dimension'] = points_table(result)
    return terminal_lines(
        'tournament',
        size_and_rule=size_and_rule(result),
        tables=tables,
        notes=tournament_notes(result),
    )


def tournament_section(view: RankingView) -> Section | None:
    """
    Return the section about the games of a ranking; `None` where it is of mean scores.
    """
    result = view.ranking.tournament
    if result is None:
        return None
    others = [rating_column(result, m) for m in result.ratings if m != result.rating]
    data = {
        'line': size_and_rule(result),
        'notes': tournament_notes(result),
        'cross': cross_table(result),
        'points': points_table(result),
        'ratings': _systems_table(result, others),
        'taus': [
            (RATING_TITLES.get(method, method), rating.tau)
            for method, rating in result.ratings.items()
            if rating.tau is not None
        ],
    }
    return Section('tournament', 'Tournament', data)
