"""
The leaderboard as CSV, as a table for the terminal, and on the page: with whether
something trivial would have done as well, and what failed.
"""

from collections.abc import Sequence
from operator import attrgetter
from pkgutil import resolve_name
from typing import Any

from parlai_ext.core import frozen
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import judge
from parlai_ext.report.plot import Axis, axis_for
from parlai_ext.report.summary import (
    NO_DOUBTS,
    baseline_words,
    sentences,
    warnings,
)
from parlai_ext.report.view import Doubts, RankingView
from parlai_ext.results.ranking import Ranking
from parlai_ext.view import (
    DASH,
    Cell,
    Column,
    Table,
    count_of,
    digits_for,
    interval,
    number,
    wrap_lines,
)
from parlai_ext.view.page import Section, terminal_lines

TERMINAL, PAGE = 'terminal', 'page'
# what features show in a terminal, by the field of a `Ranking` that each is given
TERMINAL_PARTS = {
    'tournament': 'parlai_ext.tournament.section:tournament_lines',
    'stopping': 'parlai_ext.stopping.looks:stopping_lines',
}


@frozen
class LeaderboardRow:
    """
    One row of a leaderboard: a standing, and the ranking and the dimension, or trivial
    baseline, that it belongs to.

    `digits` are the decimals of its scores. In the leaderboard of a trivial baseline no
    system is marked as not comparable.
    """

    ranking: Ranking
    dimension: str
    standing: Standing
    digits: int = 2
    of_baseline: bool = False

    @property
    def not_comparable(self) -> bool:
        """
        True if the judge read too many of the system's contexts in part only.
        """
        systems = self.ranking.incomparable_systems
        return not self.of_baseline and self.standing.system in systems

    @property
    def why_unranked(self) -> str | None:
        """
        Why the system is listed without a rank; `None` for a ranked one.
        """
        standing = self.standing
        if standing.rank is not None or standing.why_unranked:
            return standing.why_unranked
        missing = self.ranking.missing_scores
        of_all = f'of its {count_of(standing.n_dialogues, "dialogue")}'
        if missing is not None and standing.system in missing.not_ranked:
            n_missing = missing.n_dialogues[standing.system]
            return f'the scores of {n_missing} {of_all} are missing'
        failures = self.ranking.failures.get(standing.system)
        if failures is not None and failures.ranked is False:
            n_dialogues = count_of(failures.n_dialogues, 'dialogue')
            reason = max(failures.reasons, key=failures.reasons.__getitem__, default='')
            return f'{failures.n_failed} of its {n_dialogues} failed: {reason}'
        if not standing.n_dialogues:
            return 'it has no dialogues'
        return f'{standing.n_unscored} {of_all} are not scored'


@frozen
class LeaderboardColumn(Column):
    """
    A column of the leaderboard. In files its numbers have all their figures.

    :param meaning: for the docs.
    :param places: where it is shown: in the `TERMINAL`, on a `PAGE`, or both.
    :param style: its class in the style sheet of a page.
    :param tooltip: where the meaning is that of a number in a file.
    :param rating_heading: its heading on the leaderboard of a tournament's rating; '':
        it is left out there.
    """

    meaning: str = ''
    places: tuple[str, ...] = (TERMINAL, PAGE)
    style: str = ''
    rating_heading: str | None = None
    tournaments_only: bool = False
    exact: bool = True


def _rank_cell(row: LeaderboardRow) -> Cell:
    """
    Return the rank and, where there are several, those that the data leave open;
    ``(?)`` where that is not known.
    """
    standing = row.standing
    if standing.rank is None:
        return Cell(DASH)
    ends = (standing.rank_low, standing.rank_high)
    left_open = '(?)' if None in ends else f'({ends[0]}–{ends[1]})'
    is_sure = ends == (standing.rank, standing.rank)
    return Cell(str(standing.rank), () if is_sure else (left_open,))


def _system_cell(row: LeaderboardRow) -> Cell:
    tags = (
        ('floor', '', row.standing.is_floor),
        ('guessed', '', row.standing.system in row.ranking.guessed),
        ('not comparable', 'warn', row.not_comparable),
        ('not ranked', 'warn', row.standing.rank is None),
    )
    marks = (('*', row.standing.is_floor), ('†', row.not_comparable))
    return Cell(
        row.standing.system,
        tags=tuple((text, style) for text, style, shown in tags if shown),
        mark=' '.join(mark for mark, shown in marks if shown),
        note=row.why_unranked or '',
    )


def _truncated_share(row: LeaderboardRow) -> float:
    cut = (row.ranking.truncated or {}).get(row.standing.system)
    return cut.share if cut else 0.0


def _points(row: LeaderboardRow) -> int | None:
    result, standing = row.ranking.tournament, row.standing
    if result is None:
        return None
    if row.dimension == result.name:
        return result.total_points(standing.system)
    return result.dimension_points[standing.system].get(row.dimension)


def _rating_sd(row: LeaderboardRow) -> float | None:
    result = row.ranking.tournament
    if result is None or row.dimension != result.name:
        return None
    return result.chosen_rating.spreads.get(row.standing.system)


def _column(name: str, meaning: str, dtype: str, **more: Any) -> LeaderboardColumn:
    """
    Return a column of files; by default its value is the standing's field of its name.
    """
    more.setdefault('of', attrgetter(f'standing.{name}'))
    return LeaderboardColumn(name, meaning=meaning, dtype=dtype, **more)


# types of the data frame's columns: what does not exist is <NA>
TEXT, COUNT, NUMBER, FLAG = 'object', 'Int64', 'Float64', 'bool'
NAMES = ('dimension', 'system')  # the first columns of files: they name a row
WIDE = 'num wideonly'
ENDS = 'num ends'
COLUMNS = (
    _column(
        'dimension',
        'what was scored, or the rating of a tournament',
        TEXT,
        of=attrgetter('dimension'),
    ),
    _column(
        'rank',
        'one more than the number of ranked systems with a better score or rating',
        COUNT,
        heading='rank',
        show=_rank_cell,
        style='rank',
    ),
    _column('rank_low', 'the best rank that the data leave open', COUNT),
    _column('rank_high', 'the worst rank that the data leave open', COUNT),
    _column(
        'group',
        'tied group, from 1: each system of a group is significantly better than each '
        'of the groups after it',
        COUNT,
        heading='tied',
        is_number=True,
        style=WIDE,
        rating_heading='',
    ),
    _column(
        'system',
        'the system’s name in the roster',
        TEXT,
        heading='system',
        show=_system_cell,
        widest=34,
    ),
    LeaderboardColumn('plot', '', in_files=False, places=(PAGE,), style='plot'),
    _column(
        'score',
        'mean over its scored dialogues; of a tournament, its rating',
        NUMBER,
        heading='score',
        show=lambda row: number(row.standing.score, row.digits),
        is_number=True,
        style='num score',
        rating_heading='rating',
    ),
    LeaderboardColumn(
        'interval',
        '95 % interval',
        show=lambda row: row.standing.interval(row.digits),
        in_files=False,
        places=(TERMINAL,),
    ),
    _column(
        'low',
        'lower end of the 95 % interval for partners like these, where there are four '
        'or more; of a rating, 1.96 standard deviations below',
        NUMBER,
        heading='95 %, any partners',
        show=lambda row: interval(row.standing.low, row.standing.high, row.digits),
        places=(PAGE,),
        style=ENDS,
        tooltip='95 % interval for partners like these, where there are four or more; '
        'of a rating, 1.96 standard deviations to each side',
        rating_heading='± 1.96 standard deviations',
    ),
    _column('high', 'its upper end', NUMBER),
    _column(
        'low_fixed',
        'lower end of the 95 % interval for these partners only',
        NUMBER,
        heading='95 %, these partners',
        show=lambda row: interval(
            row.standing.low_fixed, row.standing.high_fixed, row.digits
        ),
        places=(PAGE,),
        style=ENDS,
        tooltip='95 % interval for these partners only',
        rating_heading='',
    ),
    _column('high_fixed', 'its upper end', NUMBER),
    _column(
        'n_dialogues',
        'its collected dialogues',
        COUNT,
        heading='dialogues',
        show=lambda row: Cell(
            str(row.standing.n_dialogues),
            note=f'{n} not scored' if (n := row.standing.n_unscored) else '',
        ),
        places=(PAGE,),
        style='num',
    ),
    _column('n_unscored', 'those of them without a score', COUNT),
    _column('n_openers', 'distinct openers over which it has a score', COUNT),
    _column('n_partners', 'partners with which it has a score', COUNT),
    _column(
        'n_unplayed',
        'dialogues that it lacks',
        COUNT,
        of=lambda row: (row.ranking.unplayed or {}).get(row.standing.system, 0),
    ),
    _column(
        'guessed',
        'true if the model behind the system is a guess',
        FLAG,
        of=lambda row: row.standing.system in row.ranking.guessed,
    ),
    _column(
        'truncated_share',
        'share of its judged utterances that were, with their contexts, too long for '
        'the judge',
        NUMBER,
        of=_truncated_share,
    ),
    _column(
        'not_comparable',
        'true if that share is above `max_truncated_share`',
        FLAG,
        of=lambda row: row.not_comparable,
    ),
    _column(
        'judge_check',
        'how the judge did on perturbed responses: `pass`, `weak`, `fail`, or '
        '`unchecked`',
        TEXT,
        of=lambda row: judge.outcome_on(row.ranking, row.dimension),
    ),
    _column(
        'points',
        'points over all games (tournaments only)',
        COUNT,
        of=_points,
        tournaments_only=True,
    ),
    _column(
        'rating_sd',
        'standard deviation of the rating (tournaments only)',
        NUMBER,
        of=_rating_sd,
        tournaments_only=True,
    ),
)
FILE_COLUMNS = sorted(
    [column for column in COLUMNS if column.in_files], key=lambda c: c.name not in NAMES
)


def file_table(ranking: Ranking) -> Table:
    """
    Return the leaderboards of all dimensions as one table for files, best first within
    each dimension.
    """
    columns = [c for c in FILE_COLUMNS if ranking.tournament or not c.tournaments_only]
    rows = [
        LeaderboardRow(ranking, dimension, standing)
        for dimension in ranking.dimensions
        for standing in best_first(ranking.standings[dimension])
    ]
    return Table(columns, rows)


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
    lines = terminal_lines(
        'ranking',
        ranking=ranking,
        judge=judge.terminal_card(ranking, doubts),
        boards=leaderboards(ranking),
        parts=[
            resolve_name(lines)(part)
            for field, lines in TERMINAL_PARTS.items()
            if (part := getattr(ranking, field))
        ],
        cautions=warnings(ranking),
        words=baseline_words,
    )
    return '\n'.join(lines)


def terminal_report(ranking: Ranking, doubts: Doubts = NO_DOUBTS) -> str:
    """
    Return the table for a terminal and, below it, the most important sentence; where
    that is a doubt of the audit, the next one, too.
    """
    shown = sentences(ranking, doubts)[
        : 2 if ranking.leading_dimension in doubts else 1
    ]
    lines = [line for sentence in shown for line in wrap_lines(sentence)]
    return '\n'.join([terminal_table(ranking, doubts), '', *lines])


# -------------------------------------------------------------------------- on the page


@frozen
class Board:
    """
    The leaderboard of one dimension or baseline as it is shown.

    :param failure: that the judge failed its check on this dimension.
    """

    name: str
    columns: Sequence[LeaderboardColumn]
    rows: Sequence[LeaderboardRow]
    axis: Axis
    is_rating: bool = False
    failure: str | None = None

    @property
    def ranked_table(self) -> Table:
        """
        The ranked systems as a terminal shows them, without the columns that have
        nothing to show.
        """
        columns = [
            column
            for column in COLUMNS
            if TERMINAL in column.places
            and column.heading
            and (not self.rows or any(column.cell(r).text != DASH for r in self.rows))
        ]
        return Table(columns, [r for r in self.rows if r.standing.rank is not None])


def leaderboards(ranking: Ranking) -> list[Board]:
    """
    Return the leaderboard of each dimension.
    """
    return [_board(ranking, name) for name in ranking.dimensions]


def _board(ranking: Ranking, name: str, of_baseline: bool = False) -> Board:
    """
    Return the leaderboard of a dimension or a trivial baseline, best first, with as
    many digits as tell its systems apart.
    """
    standings_of = ranking.baselines if of_baseline else ranking.standings
    standings = best_first(standings_of[name])
    digits = digits_for([standing.score for standing in standings])
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
        [
            LeaderboardRow(ranking, name, standing, digits, of_baseline)
            for standing in standings
        ],
        axis_for(standings),
        is_rating,
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
        _board(view.ranking, name, of_baseline=True) for name in view.ranking.baselines
    ]
    return Section('agreement', 'Trivial measures', baselines)


def failures_section(view: RankingView) -> Section:
    """
    Return the section about dialogues that were broken off, have no score, or were too
    long.
    """
    return Section('failures', 'Failures', None)
