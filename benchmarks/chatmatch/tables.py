"""
The tables of Yang et al. (2022) over plain data: published and measured side by side.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import combinations, product, zip_longest
from typing import Any

from tabulate import tabulate

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
from parlai_ext.ranking.ratings import rank_values, rate, sum_of_ranks
from parlai_ext.scoring.chatmatch.scorer import ChatMatch
from parlai_ext.scoring.chatmatch.words import distinct
from parlai_ext.tournament.games import RawScores, Tournament, award_points, mean_raw

Cell = str | float | int | None
# builds the scorer of a reading and an entity recogniser, or raises `UserError`
BuildScorer = Callable[[str, str], ChatMatch]

SETUP_COLUMNS = (
    'setup',
    'tau paper',
    'tau measured',
    'inconsistency paper',
    'measured',
    'relevance paper',
    'measured',
)
RATINGS = ('openskill', 'trueskill', 'bradley_terry', '3-1-0', '2-1-0')
PUBLISHED = {**paper.TAU, 'openskill': paper.TAU['trueskill']}
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
        cells = [[_cell_text(cell) for cell in row] for row in self.rows]
        numeric = [
            any(isinstance(cell, int | float) for cell in column)
            for column in zip_longest(*self.rows)
        ]
        text = tabulate(
            cells,
            headers=self.columns,
            tablefmt='plain',
            disable_numparse=True,
            colalign=['right' if one else 'left' for one in numeric],
        )
        lines = [f'  {line.rstrip()}' for line in text.split('\n')]
        return '\n'.join([self.title, *lines, *(f'  * {one}' for one in self.notes)])

    def to_json(self) -> dict[str, Any]:
        """
        Return the table as JSON data; an undefined number is its reason.
        """
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data


def _cell_text(cell: Cell) -> str:
    if cell is None:
        return ''
    return f'{cell:.2f}' if isinstance(cell, float) else str(cell)


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


def measured_readings(
    dialogues: Sequence[Dialogue],
    build_scorer: BuildScorer,
    names: Iterable[tuple[str, str]],
    ratings: Sequence[str],
    measure: Callable[[Tournament, str], Sequence[Cell]],
) -> Table:
    """
    Return a table without a heading: cells for every reading with a recogniser, and
    every rating. A combination that cannot be computed is a row that says why.

    :param names: of readings and recognisers.
    :param measure: returns the cells of a tournament by a rating, or raises
        `UserError`.
    """
    rows: list[tuple[Cell, ...]] = []
    notes: dict[str, None] = {}
    signatures = []
    for reading, recogniser in names:
        name = f'{reading}, {recogniser}'
        try:
            scorer = build_scorer(reading, recogniser)
            results = scored_tournament(dialogues, scorer)
        except UserError as error:
            rows.append((name, '', f'skipped: {error}'))
            continue
        signatures.append(scorer.signature)
        notes |= dict.fromkeys(f'{name}: {note}' for note in results.notes())
        for rating in ratings:
            try:
                rows.append((name, rating, *measure(results, rating)))
            except UserError as error:
                rows.append((name, rating, f'skipped: {error}'))
    return Table('', (), tuple(rows), tuple(notes), tuple(signatures))


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
    """

    def measure(results: Tournament, rating: str) -> list[Cell]:
        tau, without, games, seeds = tau_ranges(results, judges, rating, seed=seed)
        ends = [
            without or (None, None),
            *((one.low, one.high) for one in (games, seeds)),
        ]
        ranges = [range_cell(low, high) for low, high in ((tau.low, tau.high), *ends)]
        return [tau_cell(tau), *ranges, PUBLISHED.get(rating)]

    names = product(readings, recognisers)
    table = measured_readings(dialogues, build_scorer, names, ratings, measure)
    trivial = [
        (name, '', tau_cell(one), range_cell(one.low, one.high))
        for name, values in baselines(dialogues).items()
        for one in [correlate_with_annotators(values, judges)]
    ]
    signatures = []
    for rating in ratings:
        with suppress(UserError):  # its rows say that it is not installed
            signatures.append(rate(award_points([]), rating, seed=seed).signature)
    return Table(
        'Agreement with the judges (tau-b) by reading, entities and rating',
        (
            'reading, entities',
            'rating',
            'tau',
            'judges (95 %)',
            'without one bot',
            'games (95 %)',
            'shuffles (all)',
            'paper',
        ),
        (*table.rows, *trivial),
        (*READING_NOTES, *table.notes),
        (*table.signatures, *signatures),
    )


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
    games: dict[str, list[list[str]]] = {}
    for dialogue in dialogues:
        for name in sorted({turn.speaker for turn in dialogue.utterances}):
            texts = [t.text for t in dialogue.utterances if t.speaker == name]
            games.setdefault(name, []).append(texts)

    def means(measure: Callable[[list[str]], float | None]) -> dict[str, float | None]:
        return {
            name: _mean([v for v in map(measure, some) if v is not None])
            for name, some in games.items()
        }

    return {
        'mean words a turn': means(mean_length),
        'share of unrepeated turns': {
            name: None if share is None else 1 - share
            for name, share in means(repeated_share).items()
        },
    }


def ranks_table(
    results: Tournament,
    dialogues: Sequence[Dialogue],
    judges: AnnotatorRanks,
    *,
    method: str,
    seed: int = 0,
) -> Table:
    """
    Return what of Figure 3 can be had: each bot's place by people and by the games.
    """
    people = {k: None if v is None else -v for k, v in mean_ranks(judges).items()}
    columns = {
        'people (HR)': people,
        'ChatMatch (CM)': rate(results, method, seed=seed).values,
        **baselines(dialogues),
    }
    places = [rank_values(values) for values in columns.values()]
    rows = tuple((name, *(own.get(name) for own in places)) for name in results.systems)
    notes = (
        'the paper draws Figure 3 without numbers; its text has BB first by HR and CM',
        f'PPL, TA, BS, HAE, STB: not here: {paper.NOT_HERE["static scripts"][1]}',
    )
    return Table('Figure 3: places of the bots', ('bot', *columns), rows, notes)


def variety_table(dialogues: Sequence[Dialogue]) -> Table:
    """
    Return the bot-bot row of Table 11: means over all turns but the given first.
    """
    texts = [turn.text for one in dialogues for turn in one.utterances[1:]]
    rows: list[tuple[Cell, ...]] = [('paper', *paper.VARIETY)]
    for unit in ('character', 'token'):
        one, two = (
            _mean(share) or 0.0
            for share in zip(*(distinct(text, unit) for text in texts), strict=True)
        )
        words = _mean([float(len(text.split())) for text in texts])
        rows.append((f'measured, {unit}s', one, two, (one + two) / 2, words))
    notes = (
        'characters: as the script computes distinct-n; length: words between blanks',
        f'human-bot: not here: {paper.NOT_HERE["human-bot"][1]}',
    )
    columns = ('bot-bot', 'D-1', 'D-2', 'mean of both', 'length')
    return Table('Table 11: variety', columns, tuple(rows), notes)


def not_here_table() -> Table:
    """
    Return the published tables that need unreleased data, each with the reason.
    """
    return Table('Not measured', ('what', 'why'), tuple(paper.NOT_HERE.values()))


def _tau_or_reason(
    values: Mapping[str, float | None],
    ranks: Mapping[str, float | None],
    reason: str | None,
) -> Correlation:
    agreement = correlate_with_ranks(values, ranks)
    return replace(agreement, reason=reason) if reason else agreement


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
