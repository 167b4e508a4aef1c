"""
The tables of Yang et al. (2022) over plain data: published and measured side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from benchmarks.chatmatch import published as paper
from benchmarks.chatmatch.annotators import (
    agreement_among_annotators,
    correlate_with_annotators,
)
from benchmarks.chatmatch.games import (
    RawValues,
    games_from_dialogues,
    scored_tournament,
)
from benchmarks.chatmatch.robustness import (
    TauRanges,
    games_among,
    rated_tau,
    tau_ranges,
)
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue
from parlai_ext.ranking.agreement import (
    AnnotatorRanks,
    Correlation,
    correlate_with_ranks,
    mean_ranks,
)
from parlai_ext.ranking.baselines import mean_length, repeated_share
from parlai_ext.ranking.ratings import rate, sum_of_ranks
from parlai_ext.scoring.chatmatch.scorer import ChatMatch
from parlai_ext.tournament.games import RawScores, Tournament, award_points, mean_raw

Cell = str | float | int | None
# builds the scorer of a reading and an entity recogniser, or raises `UserError`
BuildScorer = Callable[[str, str], ChatMatch]

SETUP_COLUMNS = (
    *('setup', 'tau paper', 'tau measured', 'inconsistency paper', 'measured'),
    *('relevance paper', 'measured'),
)
RATINGS = ('openskill', 'trueskill', 'bradley_terry', '3-1-0', '2-1-0')
PUBLISHED = {**paper.TAU, 'openskill': paper.TAU['trueskill']}
READING_COLUMNS = (
    *('reading, entities', 'rating', 'paper', 'tau', 'judges (95 %)'),
    *('without one bot', 'games (95 %)', 'shuffles (all)'),
)
READING_NOTES = (
    'judges: every draw of the judges; without one bot: smallest and largest tau of '
    "the others' tournament; games: drawn anew within each pair, a figure of "
    'sensitivity and no interval, since games share bots; shuffles: the seeds 0 to 49',
    'paper: its TrueSkill, 3-1-0 and 2-1-0; its reading of its own text is unknown',
)


@dataclass(frozen=True)
class Table:
    """
    Rows under columns; a cell without a number says in words why there is none.

    `signatures` fix the numbers, as far as the table itself knows them.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()

    def to_text(self) -> str:
        """
        Return the table as lines: columns with numbers to the right, others to the
        left.
        """
        rows = [self.columns, *(tuple(map(_cell_text, row)) for row in self.rows)]
        columns = range(len(self.columns))
        widths = [
            max(len(row[i]) for row in rows if not _is_reason(row[i])) for i in columns
        ]
        numeric = [
            any(isinstance(row[i], int | float) for row in self.rows) for i in columns
        ]
        lines = [self.title]
        for row in rows:
            cells = [
                row[i].rjust(widths[i]) if numeric[i] else row[i].ljust(widths[i])
                for i in columns
            ]
            lines.append('  ' + '  '.join(cells).rstrip())
        return '\n'.join([*lines, *(f'  * {note}' for note in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """
        Return the table as JSON data; an undefined number is its reason.
        """
        return {
            'title': self.title,
            'columns': list(self.columns),
            'rows': [list(row) for row in self.rows],
            'notes': list(self.notes),
            'signatures': list(self.signatures),
        }


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ''
    return f'{cell:.2f}' if isinstance(cell, float) else str(cell)


def _is_reason(cell: str) -> bool:
    return cell.startswith(('undefined:', 'skipped:'))


def tau_cell(agreement: Correlation) -> Cell:
    """
    Return a tau's value, or ``undefined:`` and the reason.
    """
    if agreement.value is None:
        return f'undefined: {agreement.reason}'
    return agreement.value


def range_cell(low: float | None, high: float | None) -> str | None:
    """
    Return a range with two decimals, `None` if it has no ends.
    """
    return None if low is None or high is None else f'{low:.2f} … {high:.2f}'


def judges_table(judgements: Mapping[str, AnnotatorRanks]) -> Table:
    """
    Return Table 4: mean tau-b over pairs of judges, by dimension.
    """
    rows: list[tuple[Cell, ...]] = []
    others = sorted(set(judgements) - set(paper.AMONG_JUDGES))
    for dimension in [*paper.AMONG_JUDGES, *others]:
        published = paper.AMONG_JUDGES.get(dimension)
        if dimension not in judgements:
            rows.append((dimension, published, 'undefined: nobody judged it', None))
            continue
        agreement = agreement_among_annotators(judgements[dimension])
        rows.append((dimension, published, tau_cell(agreement), agreement.n))
    title = 'Table 4: agreement among judges (mean pairwise tau-b)'
    return Table(
        title, ('dimension', 'paper', 'measured', 'pairs of judges'), tuple(rows)
    )


def groups_table(
    results: Tournament,
    judges: AnnotatorRanks,
    *,
    size: int = 4,
    method: str,
    seed: int = 0,
) -> Table:
    """
    Return Table 6: every group of ``size`` systems, its own games ranked anew.
    """
    if not 2 <= size <= len(results.systems):
        raise UserError(
            f'groups of {size}: there are {len(results.systems)} systems; 2 to '
            f'{len(results.systems)} would fit'
        )
    ranks = mean_ranks(judges)
    rows: list[tuple[Cell, ...]] = []
    taus, judge_taus = [], []
    for group in combinations(results.systems, size):
        with_people = rated_tau(games_among(results, group), ranks, method, seed=seed)
        among = agreement_among_annotators(judges, group)
        published = paper.GROUPS.get(group, (None, None))
        cells = published[0], tau_cell(with_people), published[1], tau_cell(among)
        rows.append((' '.join(group), *cells))
        taus += [] if with_people.value is None else [with_people.value]
        judge_taus += [] if among.value is None else [among.value]
    n_groups = len(rows)
    in_paper = size == 4 and set(paper.GROUPS) == set(combinations(results.systems, 4))
    means = (paper.GROUPS_MEAN, paper.GROUPS_AMONG) if in_paper else (None, None)
    above = sum(value > 0.6 for value in taus)
    rows.append(('mean', means[0], _mean(taus), means[1], _mean(judge_taus)))
    published_above = paper.GROUPS_ABOVE_060 if in_paper else None
    rows.append(('groups above 0.60', published_above, above, None, None))
    columns = [f'{a} {b}' for a in ('tau', 'judges') for b in ('paper', 'measured')]
    notes = ['the groups share games: a re-ranking of one tournament, no replication']
    if undefined := n_groups - len(taus):
        notes.append(f'{undefined} groups without a tau are in no mean and not counted')
    title = f'Table 6: all {n_groups} groups of {size}'
    return Table(title, ('systems', *columns), tuple(rows), (*notes, *results.notes()))


def setups_table(
    results: Tournament,
    self_chats: RawScores | None,
    counts: Mapping[str, Mapping[str, float | None]],
    judges: AnnotatorRanks,
    *,
    method: str,
    seed: int = 0,
) -> Table:
    """
    Return Table 7: the tournament, self-chats by their sums of ranks, and counts.

    :param counts: setup -> `inconsistency` and `relevance`, means per dialogue.
    """
    ranks = mean_ranks(judges)
    taus = {'bot-bot': rated_tau(results, ranks, method, seed=seed)}
    notes = [*results.notes()]
    if self_chats:
        rating = sum_of_ranks(self_chats)
        taus['self-chat'] = _tau_or_reason(rating.values, ranks, rating.reason)
        notes += [f'self-chat: {note}' for note in rating.notes]
    else:
        taus['self-chat'] = Correlation(None, 0, 'no self-chats were given')
    rows: list[tuple[Cell, ...]] = []
    for setup, agreement in taus.items():
        published, measured = paper.SETUPS[setup], counts.get(setup, {})
        row: list[Cell] = [setup, published['tau'], tau_cell(agreement)]
        for name in ('inconsistency', 'relevance'):
            value = measured.get(name)
            row += [published[name], 'undefined: no count' if value is None else value]
        rows.append(tuple(row))
    sums = sum_of_ranks(mean_raw([result.game for result in results.results]))
    by_sums = tau_cell(_tau_or_reason(sums.values, ranks, sums.reason))
    rows.append(('bot-bot, by sums of ranks', None, by_sums, *[None] * 4))
    human = paper.SETUPS['human-bot']
    cells = human['tau'], None, human['inconsistency'], None, human['relevance'], None
    rows.append(('human-bot', *cells))
    notes.append(f'human-bot: not here: {paper.NOT_HERE["human-bot"][1]}')
    notes += [  # other ways of counting the same relevance bonuses
        f'{setup}, relevance {name}: {value:.2f}'
        for setup, measured in counts.items()
        for name, value in measured.items()
        if name not in ('inconsistency', 'relevance') and value is not None
    ]
    return Table('Table 7: chatting setups', SETUP_COLUMNS, tuple(rows), tuple(notes))


def ablation_table(
    results: Tournament, judges: AnnotatorRanks, *, method: str, seed: int = 0
) -> Table:
    """
    Return Table 8: tau without each dimension, and with it alone.
    """
    ranks = mean_ranks(judges)
    games = [one.game for one in results.results]

    def measured(dimensions: Sequence[str]) -> Cell:
        if not dimensions:
            return 'undefined: no dimension is left'
        part = award_points(games, dimensions=dimensions, systems=results.systems)
        return tau_cell(rated_tau(part, ranks, method, seed=seed))

    rows: list[tuple[Cell, ...]] = []
    for dimension in results.dimensions:
        rest = [one for one in results.dimensions if one != dimension]
        published = paper.WITHOUT.get(dimension)
        rows.append((dimension, published, measured(rest), measured([dimension])))
    rows.append(('(none)', paper.WITHOUT['(none)'], measured(results.dimensions), None))
    columns = ('without', 'paper', 'measured', 'with it alone')
    title = 'Table 8: dimensions left out'
    return Table(title, columns, tuple(rows), tuple(results.notes()))


def lengths_table(
    dialogues: Sequence[Dialogue],
    raw_values: RawValues,
    judges: AnnotatorRanks,
    *,
    method: str,
    seed: int = 0,
    exchanges: Sequence[int] = paper.EXCHANGES,
) -> Table:
    """
    Return Figure 4: tau of the same games, cut after so many exchanges.
    """
    ranks = mean_ranks(judges)
    longest = max((len(one.utterances) for one in dialogues), default=0) // 2
    rows: list[tuple[Cell, ...]] = []
    for length in exchanges:
        if length > longest:
            rows.append((length, f'not here: no game has {length} exchanges'))
            continue
        cut = [first_exchanges(one, length) for one in dialogues]
        results = award_points(games_from_dialogues(cut, raw_values))
        rows.append((length, tau_cell(rated_tau(results, ranks, method, seed=seed))))
    notes = (
        'the paper draws Figure 4 without numbers; its text says that no fewer than '
        '100 exchanges agree best',
        f'{paper.NOT_HERE["long"][0]}: not here: {paper.NOT_HERE["long"][1]}',
    )
    columns = ('exchanges', 'tau measured')
    return Table('Figure 4: number of exchanges', columns, tuple(rows), notes)


def first_exchanges(dialogue: Dialogue, exchanges: int) -> Dialogue:
    """
    Return the first exchanges (two turns each) of a dialogue.
    """
    return replace(dialogue, utterances=dialogue.utterances[: 2 * exchanges])


def readings_table(
    dialogues: Sequence[Dialogue],
    judges: AnnotatorRanks,
    build_scorer: BuildScorer,
    *,
    readings: Iterable[str],
    recognisers: Sequence[str],
    ratings: Sequence[str] = RATINGS,
    seed: int = 0,
) -> Table:
    """
    Return tau and its ranges for every reading, recogniser, rating and baseline.

    A combination that cannot be computed is a row that says why.
    """
    rows: list[tuple[Cell, ...]] = []
    notes: dict[str, None] = {}
    signatures: list[str] = []
    for reading, recogniser in ((a, b) for a in readings for b in recognisers):
        name = f'{reading}, {recogniser}'
        try:
            scorer = build_scorer(reading, recogniser)
            results = scored_tournament(dialogues, scorer)
        except UserError as error:
            rows.append((name, '', None, f'skipped: {error}', *[None] * 4))
            continue
        signatures.append(scorer.signature)
        notes |= dict.fromkeys(f'{name}: {note}' for note in results.notes())
        rows += [_rating_row(name, one, results, judges, seed) for one in ratings]
    for name, values in baselines(dialogues).items():
        agreement = correlate_with_annotators(values, judges)
        low_high = range_cell(agreement.low, agreement.high)
        rows.append((name, '', None, tau_cell(agreement), low_high, *[None] * 3))
    for rating in ratings:
        with suppress(UserError):  # its rows say that it is not installed
            signatures.append(rate(award_points([]), rating, seed=seed).signature)
    title = 'Agreement with the judges (tau-b) by reading, entities and rating'
    all_notes = (*READING_NOTES, *notes)
    return Table(title, READING_COLUMNS, tuple(rows), all_notes, tuple(signatures))


def _rating_row(
    name: str, rating: str, results: Tournament, judges: AnnotatorRanks, seed: int
) -> tuple[Cell, ...]:
    published = PUBLISHED.get(rating)
    try:
        ranges = tau_ranges(results, judges, rating, seed=seed)
    except UserError as error:
        return (name, rating, published, f'skipped: {error}', *[None] * 4)
    return (name, rating, published, tau_cell(ranges.judges), *_range_cells(ranges))


def _range_cells(ranges: TauRanges) -> tuple[str | None, ...]:
    """
    Return the four ranges of a rating.
    """
    ends = (
        (ranges.judges.low, ranges.judges.high),
        ranges.without_range or (None, None),
        (ranges.games.low, ranges.games.high),
        (ranges.seeds.low, ranges.seeds.high),
    )
    return tuple(range_cell(low, high) for low, high in ends)


def baselines_table(dialogues: Sequence[Dialogue], judges: AnnotatorRanks) -> Table:
    """
    Return what tau trivial measures of the same games reach.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, values in baselines(dialogues).items():
        agreement = correlate_with_annotators(values, judges)
        rows.append((name, tau_cell(agreement), agreement.low, agreement.high))
    columns = ('baseline', 'tau', 'judges low', 'judges high')
    return Table('Trivial baselines', columns, tuple(rows))


def baselines(dialogues: Sequence[Dialogue]) -> dict[str, dict[str, float | None]]:
    """
    Return mean words a turn and share of unrepeated turns, means over games.
    """
    lengths: dict[str, list[float]] = {}
    unrepeated: dict[str, list[float]] = {}
    for dialogue in dialogues:
        for name in sorted({turn.speaker for turn in dialogue.utterances}):
            texts = [t.text for t in dialogue.utterances if t.speaker == name]
            length, repeated = mean_length(texts), repeated_share(texts)
            lengths.setdefault(name, []).extend([] if length is None else [length])
            unrepeated.setdefault(name, []).extend(
                [] if repeated is None else [1 - repeated]
            )
    return {
        'mean words a turn': {name: _mean(one) for name, one in lengths.items()},
        'share of unrepeated turns': {n: _mean(one) for n, one in unrepeated.items()},
    }


def not_here_table() -> Table:
    """
    Return the published tables that need unreleased data, each with the reason.
    """
    rows = tuple(paper.NOT_HERE.values())
    return Table('Not measured', ('what', 'why'), rows)


def _tau_or_reason(
    values: Mapping[str, float | None],
    ranks: Mapping[str, float | None],
    reason: str | None,
) -> Correlation:
    agreement = correlate_with_ranks(values, ranks)
    return replace(agreement, reason=reason) if reason else agreement


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
