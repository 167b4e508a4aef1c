"""
The tables of Yang et al. (2022) over plain data: published and measured side by side.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path

from benchmarks.chatmatch.games import (
    RawValues,
    games_from_dialogues,
    scored_tournament,
)
from parlai_ext.core import Dialogue, UserError, grouped, mean
from parlai_ext.files import read_file
from parlai_ext.ranking.agreement import (
    AnnotatorRanks,
    Correlation,
    correlate_with_ranks,
    mean_ranks,
)
from parlai_ext.ranking.baselines import mean_length, repeated_share
from parlai_ext.ranking.games import RawScores, Tournament, award_points, mean_raw
from parlai_ext.ranking.ratings import Rating, rank_values, rate, sum_of_ranks
from parlai_ext.scoring.chatmatch import ChatMatch, distinct
from parlai_ext.view import shown_table

Cell = str | float | int | None
Row = tuple[Cell, ...]
# builds the scorer of a reading and an entity recogniser, or raises `UserError`
BuildScorer = Callable[[str, str], ChatMatch]
RATINGS = ('openskill', 'trueskill', 'bradley_terry', '3-1-0', '2-1-0')
# the numbers of the paper
PAPER = read_file(Path(__file__).with_name('published.yaml')).data
TAUS = {**PAPER['tau'], 'openskill': PAPER['tau']['trueskill']}
GROUPS = {tuple(name.split()): taus for name, taus in PAPER['groups'].items()}


@dataclass(frozen=True)
class Table:
    """
    Rows under columns; a cell without a number says in words why there is none.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def lines(self) -> Iterator[str]:
        """
        Yield the table for a terminal.
        """
        texts = [['' if cell is None else cell for cell in row] for row in self.rows]
        yield self.title
        yield from shown_table(self.columns, texts).lines('  ')
        yield from (f'  * {note}' for note in self.notes)


@dataclass(frozen=True)
class Rated:
    """
    How tournaments are rated and what people think: taus come from both.
    """

    judges: AnnotatorRanks
    method: str = 'openskill'
    seed: int = 0

    def tau(self, results: Tournament) -> Cell:
        """
        Return the tau of a tournament's rating, or ``undefined:`` and the reason.
        """
        return self.tau_of(rate(results, self.method, seed=self.seed))

    def tau_of(self, rating: Rating) -> Cell:
        """
        Return the tau of a rating.
        """
        return tau_cell(
            correlate_with_ranks(rating.values, mean_ranks(self.judges)), rating.reason
        )


def tau_cell(agreement: Correlation, reason: str | None = None) -> Cell:
    """
    Return a tau, or ``undefined:`` and the reason.
    """
    if agreement.value is None:
        return f'undefined: {reason or agreement.reason}'
    return agreement.value


def agreement_among(
    judges: AnnotatorRanks, systems: Sequence[str] | None = None
) -> tuple[Cell, int]:
    """
    Return the mean tau-b over pairs of judges, and the number of pairs that have one.

    :param systems: compare these alone (`None`: all).
    """
    taus = []
    for one, other in combinations(sorted(judges), 2):
        # the other's larger values go with smaller ranks of a correlation
        turned = {n: -rank for n, rank in judges[other].items() if rank is not None}
        own = judges[one]
        shared = {n: own[n] for n in own if systems is None or n in systems}
        tau = correlate_with_ranks(shared, turned).value
        taus += [] if tau is None else [tau]
    tau = mean(taus)
    return ('undefined: no two can be compared' if tau is None else tau), len(taus)


def judges_table(judgements: Mapping[str, AnnotatorRanks]) -> Table:
    """
    Return Table 4: mean tau-b over pairs of judges, by dimension.
    """
    rows: list[Row] = []
    for dimension in dict.fromkeys([*PAPER['among_judges'], *sorted(judgements)]):
        found: Row = ('undefined: nobody judged it', None)
        if dimension in judgements:
            found = agreement_among(judgements[dimension])
        rows.append((dimension, PAPER['among_judges'].get(dimension), *found))
    title = 'Table 4: agreement among judges (mean pairwise tau-b)'
    columns = ('dimension', 'paper', 'measured', 'pairs of judges')
    return Table(title, columns, rows)


def groups_table(results: Tournament, rated: Rated, size: int) -> Table:
    """
    Return Table 6: every group of ``size`` systems, its own games ranked anew. Groups
    without a tau are in no mean.
    """
    if not 2 <= size <= len(results.systems):
        raise UserError(
            f'groups of {size}: 2 to {len(results.systems)} systems would fit'
        )
    rows: list[Row] = []
    for group in combinations(results.systems, size):
        games = tuple(
            one
            for one in results.results
            if {one.game.first, one.game.second} <= {*group}
        )
        own = Tournament(group, results.dimensions, games)
        published = GROUPS.get(group, (None, None))
        among = agreement_among(rated.judges, group)[0]
        cells = published[0], rated.tau(own), published[1], among
        rows.append((' '.join(group), *cells))
    taus, among_judges = (
        [row[k] for row in rows if isinstance(row[k], float | int)] for k in (2, 4)
    )
    above = sum(tau > 0.6 for tau in taus)
    in_paper = size == 4 and set(GROUPS) == set(combinations(results.systems, 4))
    means = [PAPER[f'groups_{what}'] for what in ('mean', 'among', 'above_060')]
    published_mean, among, published_above = means if in_paper else (None,) * 3
    n_groups = len(rows)
    rows.append(('mean', published_mean, mean(taus), among, mean(among_judges)))
    rows.append(('groups above 0.60', published_above, above, None, None))
    columns = ('systems', 'tau paper', 'measured', 'judges paper', 'measured')
    notes = (f'{len(taus)} of {n_groups} groups have a tau', *results.notes())
    return Table(f'Table 6: all {n_groups} groups', columns, rows, notes)


def setups_table(
    results: Tournament,
    self_chats: RawScores,
    counts: Mapping[str, Mapping[str, float | None]],
    rated: Rated,
) -> Table:
    """
    Return Table 7: the tournament, self-chats by their sums of ranks, and counts.

    :param counts: setup -> `inconsistency`, `relevance` and other ways of counting the
        latter, means per dialogue.
    """
    sums = sum_of_ranks(
        mean_raw([result.game for result in results.results], results.systems)
    )
    taus = {
        'bot-bot': rated.tau(results),
        'self-chat': rated.tau_of(sum_of_ranks(self_chats))
        if self_chats
        else 'undefined: no self-chats',
    }
    rows: list[Row] = []
    for setup, tau in taus.items():
        row: list[Cell] = [setup, PAPER['setups'][setup]['tau'], tau]
        for name in ('inconsistency', 'relevance'):
            value = counts.get(setup, {}).get(name)
            published = PAPER['setups'][setup][name]
            row += [published, 'undefined: no count' if value is None else value]
        rows.append(tuple(row))
    rows.append(('bot-bot, by sums of ranks', None, rated.tau_of(sums), *[None] * 4))
    notes = [
        f'{setup}, relevance {name}: {value:.2f}'
        for setup, measured in counts.items()
        for name, value in measured.items()
        if name not in ('inconsistency', 'relevance') and value is not None
    ]
    names = [
        f'{what} {who}'
        for what in ('tau', 'incons.', 'relev.')
        for who in ('paper', 'measured')
    ]
    return Table(
        'Table 7: chatting setups',
        ('setup', *names),
        rows,
        (*notes, *results.notes()),
    )


def ablation_table(results: Tournament, rated: Rated) -> Table:
    """
    Return Table 8: tau without each dimension, and with it alone.
    """
    games = [one.game for one in results.results]

    def tau(dimensions: Sequence[str]) -> Cell:
        if not dimensions:
            return 'undefined: no dimension is left'
        return rated.tau(
            award_points(games, dimensions=dimensions, systems=results.systems)
        )

    rows: list[Row] = []
    for dimension in results.dimensions:
        rest = [one for one in results.dimensions if one != dimension]
        cells = PAPER['without'].get(dimension), tau(rest), tau([dimension])
        rows.append((dimension, *cells))
    rows.append(('(none)', PAPER['without']['(none)'], tau(results.dimensions), None))
    columns = ('without', 'paper', 'measured', 'with it alone')
    return Table('Table 8: dimensions left out', columns, rows, [*results.notes()])


def lengths_table(
    dialogues: Sequence[Dialogue],
    raw_values: RawValues,
    rated: Rated,
    exchanges: Sequence[int] = PAPER['exchanges'],
) -> Table:
    """
    Return Figure 4, a drawing without numbers: tau of the same games, cut after so many
    exchanges of two turns.
    """
    longest = max((len(one.utterances) for one in dialogues), default=0) // 2
    rows: list[Row] = []
    for n in exchanges:
        tau: Cell = f'not here: no game has {n} exchanges'
        if n <= longest:
            cut = [replace(d, utterances=d.utterances[: 2 * n]) for d in dialogues]
            tau = rated.tau(award_points(games_from_dialogues(cut, raw_values)))
        rows.append((n, tau))
    columns = ('exchanges', 'tau measured')
    return Table('Figure 4: number of exchanges', columns, rows)


def readings_table(
    dialogues: Sequence[Dialogue],
    rated: Rated,
    build_scorer: BuildScorer,
    readings: Iterable[str],
    recognisers: Sequence[str],
    ratings: Sequence[str] = RATINGS,
) -> Table:
    """
    Return tau for every reading with a recogniser, every rating and trivial measures;
    what cannot be computed is a row that says why.
    """
    rows: list[Row] = []
    for name in product(readings, recognisers):
        try:
            results = scored_tournament(dialogues, build_scorer(*name))
        except UserError as error:
            rows.append((', '.join(name), '', f'skipped: {error}', None))
            continue
        for rating in ratings:
            tau = replace(rated, method=rating).tau(results)
            rows.append((', '.join(name), rating, tau, TAUS.get(rating)))
    ranks = mean_ranks(rated.judges)
    for trivial, values in baselines(dialogues).items():
        rows.append((trivial, '', tau_cell(correlate_with_ranks(values, ranks)), None))
    columns = ('reading, entities', 'rating', 'tau', 'paper')
    return Table('Agreement with the judges (tau-b)', columns, rows)


def baselines(dialogues: Sequence[Dialogue]) -> dict[str, dict[str, float | None]]:
    """
    Return mean words a turn and share of unrepeated turns, means over games.
    """
    games = grouped(
        (name, [t.text for t in dialogue.utterances if t.speaker == name])
        for dialogue in dialogues
        for name in sorted({turn.speaker for turn in dialogue.utterances})
    )

    def means(measure: Callable[[list[str]], float | None]) -> dict[str, float | None]:
        return {
            name: mean([v for v in map(measure, some) if v is not None])
            for name, some in games.items()
        }

    repeated = means(repeated_share)
    return {
        'mean words a turn': means(mean_length),
        'share of unrepeated turns': {
            name: None if share is None else 1 - share
            for name, share in repeated.items()
        },
    }


def ranks_table(
    results: Tournament, dialogues: Sequence[Dialogue], rated: Rated
) -> Table:
    """
    Return what of Figure 3, a drawing without numbers, can be had: each bot's place by
    people and by the games.
    """
    ranks = mean_ranks(rated.judges)
    columns = {
        'people (HR)': {k: None if v is None else -v for k, v in ranks.items()},
        'ChatMatch (CM)': rate(results, rated.method, seed=rated.seed).values,
        **baselines(dialogues),
    }
    places = [rank_values(values) for values in columns.values()]
    rows = [(name, *(own.get(name) for own in places)) for name in results.systems]
    return Table('Figure 3: places of the bots', ('bot', *columns), rows)


def variety_table(dialogues: Sequence[Dialogue]) -> Table:
    """
    Return the bot-bot row of Table 11: means over all turns but the given first;
    lengths are words between blanks.
    """
    texts = [turn.text for one in dialogues for turn in one.utterances[1:]]
    rows: list[Row] = [('paper', *PAPER['variety'])]
    words = mean([len(text.split()) for text in texts])
    for unit in ('character', 'token'):
        one, two = (
            mean(share) or 0.0
            for share in zip(*(distinct(text, unit) for text in texts), strict=True)
        )
        rows.append((f'measured, {unit}s', one, two, (one + two) / 2, words))
    columns = ('bot-bot', 'D-1', 'D-2', 'mean of both', 'length')
    return Table('Table 11: variety', columns, rows)
