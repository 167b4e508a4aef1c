"""
A tournament for readers: its cross-table, points by dimension and ratings.
"""

import math
from collections.abc import Sequence

from parlai_ext.ranking.intervals import FEWEST_OPENERS
from parlai_ext.ranking.ratings import NORMAL_BOUND
from parlai_ext.report.view import RankingView
from parlai_ext.results.ranking import TournamentResult
from parlai_ext.tournament.games import ENDS
from parlai_ext.view import Column, Table, number, number_column
from parlai_ext.view.page import Section, terminal_lines

# what fits into a terminal
MOST_SYSTEMS, MOST_DIMENSIONS = 9, 7
NARROW = 0.5  # an interval of a rating, of which one decimal would show little
RATING_TITLES = {
    'bradley_terry': 'Bradley–Terry',
    'sum_of_ranks': 'sum of ranks, negated',
}


def systems_by_rating(result: TournamentResult) -> list[str]:
    """
    Return the systems of a tournament, best first; those without a rating last.
    """
    values = result.chosen_rating.values

    def key(name: str) -> tuple[bool, float, str]:
        value = values.get(name)
        return (value is None, -(value or 0.0), name)

    return sorted(result.systems, key=key)


def rating_text(result: TournamentResult, name: str) -> str:
    """
    Return a system's rating as text, with a standard deviation where there is one.
    """
    rating = result.chosen_rating
    spread = rating.spreads.get(name)
    # the interval reaches `NORMAL_BOUND` deviations to both sides
    digits = 2 if spread is not None and 2 * NORMAL_BOUND * spread < NARROW else 1
    shown = number(rating.values.get(name), digits)
    return shown if spread is None else f'{shown} ± {number(spread, digits)}'


def size_and_rule(result: TournamentResult) -> str:
    """
    Return the size of a tournament and its rating in one sentence.
    """
    [line] = terminal_lines('tournament_size', result=result)
    return line


def tournament_sentence(result: TournamentResult, n_openers: int) -> str:
    """
    Return which system is first by the rating, and whose ratings are near to it.

    :param n_openers: over how many distinct openers games were played.
    """
    names, values = systems_by_rating(result), result.chosen_rating.values
    best = values.get(names[0]) if names else None
    lines = terminal_lines(
        'tournament_sentence',
        result=result,
        names=names,
        best=best,
        first=[name for name in names if values.get(name) == best],
        near=[name for name in names[1:] if _is_close_behind(result, names[0], name)],
        rating_text=rating_text,
        n_openers=n_openers,
        fewest_openers=FEWEST_OPENERS,
    )
    return ' '.join(lines)


def _is_close_behind(result: TournamentResult, leader: str, other: str) -> bool:
    """
    True if the leader's rating is above the other system's by at most 1.96 standard
    deviations of their difference; false if one of them has no standard deviation.
    """
    rating = result.chosen_rating
    best, value = rating.values.get(leader), rating.values.get(other)
    if best is None or value is None or not {leader, other} <= set(rating.spreads):
        return False
    deviation = math.hypot(rating.spreads[leader], rating.spreads[other])
    return best - value <= NORMAL_BOUND * deviation


def tournament_notes(result: TournamentResult) -> list[str]:
    """
    Return what a reader of the tournament must be told.
    """
    return [*filter(None, terminal_lines('tournament_notes', result=result))]


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
