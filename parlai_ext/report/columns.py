"""
The columns of a leaderboard, each declared once.

`leaderboard.csv`, the data frame, the terminal table, the page and the table in
docs/evaluate.md are made from `COLUMNS`. A new column is one more entry there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.display import interval, number, one_line
from parlai_ext.core.floors import is_floor
from parlai_ext.ranking.standings import Standing
from parlai_ext.report import judge
from parlai_ext.results.ranking import Ranking


@dataclass(frozen=True)
class LeaderboardRow:
    """
    One row of a leaderboard: a standing and the ranking that it belongs to.

    `digits` are the decimals of its scores. In the leaderboard of a trivial baseline no
    system is marked as not comparable.
    """

    ranking: Ranking
    standing: Standing
    digits: int = 2
    of_baseline: bool = False

    @property
    def floor(self) -> bool:
        """
        True if the system is a floor.
        """
        return is_floor(self.standing.system)

    @property
    def guessed(self) -> bool:
        """
        True if the model behind the system is a guess.
        """
        return self.standing.system in self.ranking.guessed

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
        if missing is not None and standing.system in missing.not_ranked:
            n_missing = missing.n_dialogues[standing.system]
            of_all = f'{n_missing} of its {standing.n_dialogues} dialogues'
            return f'the scores of {of_all} are missing'
        failures = self.ranking.failures.get(standing.system)
        if failures is not None and failures.ranked is False:
            return f'{failures.n_failed} of its {failures.n_dialogues} dialogues failed'
        return (
            f'{standing.n_unscored} of its {standing.n_dialogues} dialogues are not '
            'scored'
        )


@dataclass(frozen=True)
class TerminalColumn:
    """
    How a column shows in the terminal: at least ``width`` columns wide.

    With ``cut`` the width is that of the widest text, at most ``width``, and longer
    texts are cut.
    """

    title: str
    text: Callable[[LeaderboardRow], str]
    width: int = 0
    right: bool = False
    cut: bool = False


@dataclass(frozen=True)
class Cell:
    """
    A cell of the page: a text, more of it in lighter print, tags, and a line below.
    """

    text: str
    soft: str = ''
    tags: tuple[tuple[str, bool], ...] = ()  # a text, and whether it is a warning
    below: str = ''


@dataclass(frozen=True)
class PageColumn:
    """
    How a column shows on the page; `style` is its class in the style sheet.

    `rating_title` is its title on the leaderboard of a tournament's rating (empty: it
    is left out there). The plot has no cells: the template draws it.
    """

    title: str
    cell: Callable[[LeaderboardRow], Cell] | None = None
    style: str = ''
    rating_title: str | None = None


@dataclass(frozen=True)
class Column:
    """
    One column: where it shows follows from what it has.

    `kind` is the type in the data frame: ``text`` (names a row), ``word`` (one of a few
    words of ours), ``count``, ``number`` or ``flag``;
    empty for a column that CSV lacks. `value` takes the value from a row; by default it
    is the standing's field of that name. `meaning` is for the docs.
    """

    name: str
    kind: str = ''
    meaning: str = ''
    value: Callable[[LeaderboardRow], Any] | None = None
    terminal: TerminalColumn | None = None
    page: PageColumn | None = None
    tournaments_only: bool = False

    def value_of(self, row: LeaderboardRow) -> Any:
        """
        Return the value of a row in this column.
        """
        if self.value is not None:
            return self.value(row)
        return getattr(row.standing, self.name)


def csv_columns(is_tournament: bool = True) -> list[Column]:
    """
    Return the columns of CSV and data frame: those of text, which name a row, first.
    """
    columns = [
        c for c in COLUMNS if c.kind and (is_tournament or not c.tournaments_only)
    ]
    return sorted(columns, key=lambda column: column.kind != 'text')


def documented_columns() -> str:
    """
    Return the columns of `leaderboard.csv` as a Markdown table for the docs.
    """
    rows: Iterable[Column] = csv_columns()
    lines = [f'| `{column.name}` | {column.meaning} |' for column in rows]
    return '\n'.join(['| column | meaning |', '|---|---|', *lines])


def _rank_range(row: LeaderboardRow) -> str:
    """
    Return the ranks that the data leave open, where there is more than one; ``(?)``
    where that is not known.
    """
    standing = row.standing
    if standing.rank_low is None or standing.rank_high is None:
        return '(?)'
    if (standing.rank_low, standing.rank_high) == (standing.rank, standing.rank):
        return ''
    return f'({standing.rank_low}–{standing.rank_high})'


def _terminal_system(row: LeaderboardRow) -> str:
    mark = ' *' if row.floor else ''
    return one_line(row.standing.system) + mark + (' †' if row.not_comparable else '')


def _terminal_interval(row: LeaderboardRow) -> str:
    standing = row.standing
    low, high = standing.low, standing.high
    if low is None or high is None:  # few partners: the one for these only
        low, high = standing.low_fixed, standing.high_fixed
    if low is None or high is None:
        return 'no interval'
    return f'[{number(low, row.digits)}, {number(high, row.digits)}]'


def _page_rank(row: LeaderboardRow) -> Cell:
    if row.standing.rank is None:
        return Cell('–')
    return Cell(str(row.standing.rank), soft=_rank_range(row))


def _page_system(row: LeaderboardRow) -> Cell:
    tags = (
        ('floor', False, row.floor),
        ('guessed', False, row.guessed),
        ('not comparable', True, row.not_comparable),
        ('not ranked', True, row.standing.rank is None),
    )
    return Cell(
        row.standing.system,
        tags=tuple((text, warns) for text, warns, shown in tags if shown),
        below=row.why_unranked or '',
    )


def _page_dialogues(row: LeaderboardRow) -> Cell:
    unscored = row.standing.n_unscored
    below = f'{unscored} not scored' if unscored else ''
    return Cell(str(row.standing.n_dialogues), below=below)


def _truncated_share(row: LeaderboardRow) -> float | None:
    truncated = row.ranking.truncated
    if truncated is None:  # rankings of early runs do not tell
        return None
    cut = truncated.get(row.standing.system)
    return cut.share if cut else 0.0


def _n_unplayed(row: LeaderboardRow) -> int | None:
    unplayed = row.ranking.unplayed  # `None` in rankings of early runs
    return None if unplayed is None else unplayed.get(row.standing.system, 0)


def _points(row: LeaderboardRow) -> int | None:
    result, standing = row.ranking.tournament, row.standing
    if result is None or standing.system not in result.dimension_points:
        return None
    if standing.dimension == result.name:
        return result.total_points(standing.system)
    return result.dimension_points[standing.system].get(standing.dimension)


def _rating_sd(row: LeaderboardRow) -> float | None:
    result, standing = row.ranking.tournament, row.standing
    if result is None or standing.dimension != result.name:
        return None
    return result.chosen_rating.spreads.get(standing.system)


COLUMNS = (
    Column('dimension', 'text', 'what was scored, or the rating of a tournament'),
    Column(
        'rank',
        'count',
        'one more than the number of ranked systems with a better score or rating',
        terminal=TerminalColumn(
            'rank', lambda row: f'{row.standing.rank} {_rank_range(row)}', width=10
        ),
        page=PageColumn('Rank', _page_rank, 'rank'),
    ),
    Column('rank_low', 'count', 'the best rank that the data leave open'),
    Column('rank_high', 'count', 'the worst rank that the data leave open'),
    Column(
        'group',
        'count',
        'tied group, from 1: each system of a group is significantly better than each '
        'of the groups after it',
        terminal=TerminalColumn(
            'tied', lambda row: str(row.standing.group or ''), width=4, right=True
        ),
        page=PageColumn(
            'Tied group',
            lambda row: Cell(number(row.standing.group, 0)),
            'num wideonly',
            rating_title='',
        ),
    ),
    Column(
        'system',
        'text',
        'the system’s name in the roster',
        terminal=TerminalColumn('system', _terminal_system, width=34, cut=True),
        page=PageColumn('System', _page_system),
    ),
    Column('plot', page=PageColumn('', style='plot')),
    Column(
        'score',
        'number',
        'mean over its scored dialogues; of a tournament, its rating',
        terminal=TerminalColumn(
            'score',
            lambda row: number(row.standing.score, row.digits),
            width=9,
            right=True,
        ),
        page=PageColumn(
            'Score',
            lambda row: Cell(number(row.standing.score, row.digits)),
            'num score',
            rating_title='Rating',
        ),
    ),
    Column(
        'low',
        'number',
        'lower end of the 95 % interval for partners like these, where there are four '
        'or more; of a rating, 1.96 standard deviations below',
        terminal=TerminalColumn('95 % interval', _terminal_interval),
        page=PageColumn(
            '95 %, any partners',
            lambda row: Cell(interval(row.standing.low, row.standing.high, row.digits)),
            'num wideonly',
            rating_title='± 1.96 standard deviations',
        ),
    ),
    Column('high', 'number', 'its upper end'),
    Column(
        'low_fixed',
        'number',
        'lower end of the 95 % interval for these partners only',
        page=PageColumn(
            '95 %, these partners',
            lambda row: Cell(
                interval(row.standing.low_fixed, row.standing.high_fixed, row.digits)
            ),
            'num wideonly',
            rating_title='',
        ),
    ),
    Column('high_fixed', 'number', 'its upper end'),
    Column(
        'n_dialogues',
        'count',
        'its collected dialogues',
        page=PageColumn('Dialogues', _page_dialogues, 'num'),
    ),
    Column('n_unscored', 'count', 'those of them without a score'),
    Column('n_openers', 'count', 'distinct openers over which it has a score'),
    Column('n_partners', 'count', 'partners with which it has a score'),
    Column('n_unplayed', 'count', 'dialogues that it lacks', _n_unplayed),
    Column(
        'guessed',
        'flag',
        'true if the model behind the system is a guess',
        lambda row: row.guessed,
    ),
    Column(
        'truncated_share',
        'number',
        'share of its judged contexts that were too long for the judge',
        _truncated_share,
    ),
    Column(
        'not_comparable',
        'flag',
        'true if that share is above `max_truncated_share`',
        lambda row: row.not_comparable,
    ),
    Column(
        'judge_check',
        'word',
        'how the judge did on perturbed responses: `pass`, `weak`, `fail`, or '
        '`unchecked`',
        lambda row: judge.outcome_on(row.ranking, row.standing.dimension),
    ),
    Column(
        'points',
        'count',
        'points over all games (tournaments only)',
        _points,
        tournaments_only=True,
    ),
    Column(
        'rating_sd',
        'number',
        'standard deviation of the rating (tournaments only)',
        _rating_sd,
        tournaments_only=True,
    ),
)
