"""
The sections of the page about mean scores: the leaderboards, whether something trivial
would have done as well, and what failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.judge_check.section import failure_on
from parlai_ext.ranking.standings import Standing
from parlai_ext.report.columns import (
    COLUMNS,
    PAGE,
    LeaderboardColumn,
    LeaderboardRow,
    leaderboard_rows,
)
from parlai_ext.report.plot import Axis, axis_for
from parlai_ext.report.view import RankingView
from parlai_ext.results.ranking import Agreement, Ranking
from parlai_ext.view.page import Section


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
        None if of_baseline else failure_on(ranking, name),
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
