"""
The tables of Yang et al. (2022) over plain data: paper and measured side by side.

`raw_of` gives a dialogue's raw values by system and dimension, whatever computed them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from benchmarks.chatmatch import published as paper
from benchmarks.chatmatch.robustness import only, rated_tau
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue
from parlai_ext.ranking.agreement import (
    AnnotatorRanks,
    Correlation,
    agreement_among_annotators,
    correlate_with_annotators,
    correlate_with_ranks,
    mean_ranks,
)
from parlai_ext.ranking.baselines import mean_length, repeated_share
from parlai_ext.ranking.ratings import sum_of_ranks
from parlai_ext.ranking.tournament import Game, Raw, Tournament, mean_raw, tournament

RawOf = Callable[[Dialogue], Raw]
Cell = str | float | int | None
SETUP_COLUMNS = (
    *('setup', 'tau paper', 'tau measured', 'inconsistency paper', 'measured'),
    *('relevance paper', 'measured'),
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


def games_of(dialogues: Sequence[Dialogue], raw_of: RawOf) -> list[Game]:
    """
    Return one game a dialogue.

    :raises UserError: for a dialogue that has not two speakers, by its id.
    """
    found = []
    for dialogue in dialogues:
        names = list(dict.fromkeys(turn.speaker for turn in dialogue.utterances))
        if len(names) != 2:
            raise UserError(
                f'dialogue {dialogue.id}: {len(names)} speakers '
                f'({", ".join(names) or "nobody"}); a game has two'
            )
        found.append(Game(names[0], names[1], raw_of(dialogue), dialogue.id))
    return found


def truncated(dialogue: Dialogue, exchanges: int) -> Dialogue:
    """
    Return the first exchanges (two turns each) of a dialogue.
    """
    return replace(dialogue, utterances=dialogue.utterances[: 2 * exchanges])


def judges_table(said: Mapping[str, AnnotatorRanks]) -> Table:
    """
    Return Table 4: mean tau-b over pairs of judges, by dimension.
    """
    rows: list[tuple[Cell, ...]] = []
    for dimension in [*paper.AMONG_JUDGES, *sorted(set(said) - {*paper.AMONG_JUDGES})]:
        published = paper.AMONG_JUDGES.get(dimension)
        if dimension not in said:
            rows.append((dimension, published, 'undefined: nobody judged it', None))
            continue
        found = agreement_among_annotators(said[dimension])
        rows.append((dimension, published, cell(found), found.n))
    columns = ('dimension', 'paper', 'measured', 'pairs of judges')
    return Table(
        'Table 4: agreement among judges (mean pairwise tau-b)', columns, tuple(rows)
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
    taus, others = [], []
    for group in combinations(results.systems, size):
        found = rated_tau(only(results, group), ranks, method, seed=seed)
        among = agreement_among_annotators(judges, group)
        published = paper.GROUPS.get(group, (None, None))
        rows.append(
            (' '.join(group), published[0], cell(found), published[1], cell(among))
        )
        taus += [] if found.value is None else [found.value]
        others += [] if among.value is None else [among.value]
    known = size == 4 and set(paper.GROUPS) == set(combinations(results.systems, 4))
    means = (paper.GROUPS_MEAN, paper.GROUPS_AMONG) if known else (None, None)
    above = sum(value > 0.6 for value in taus)
    rows.append(('mean', means[0], _mean(taus), means[1], _mean(others)))
    share = paper.GROUPS_ABOVE_060 if known else None
    rows.append(('groups above 0.60', share, above, None, None))
    title = f'Table 6: all {len(rows) - 2} groups of {size}'
    beside = [f'{a} {b}' for a in ('tau', 'judges') for b in ('paper', 'measured')]
    notes = ['the groups share games: a re-ranking of one tournament, no replication']
    if lost := len(rows) - 2 - len(taus):
        notes.append(f'{lost} groups without a tau are in no mean and not counted')
    columns = ('systems', *beside)
    return Table(title, columns, tuple(rows), (*notes, *results.notes()))


def setups_table(
    results: Tournament,
    self_chats: Raw | None,
    counts: Mapping[str, Mapping[str, float | None]],
    judges: AnnotatorRanks,
    *,
    method: str,
    seed: int = 0,
) -> Table:
    """
    Return Table 7: the tournament, self-chats by their sums of ranks, and counts.

    :param counts: setup -> `inconsistency` and `relevance`, means a dialogue.
    """
    ranks = mean_ranks(judges)
    taus = {'bot-bot': rated_tau(results, ranks, method, seed=seed)}
    summed = sum_of_ranks(mean_raw([g.game for g in results.results]))
    rating = sum_of_ranks(self_chats) if self_chats else None
    notes = [*results.notes()]
    if rating is None:
        taus['self-chat'] = Correlation(None, 0, 'no self-chats were given')
    else:
        taus['self-chat'] = _tau_of(rating.values, ranks, rating.reason)
        notes += [f'self-chat: {note}' for note in rating.notes]
    rows: list[tuple[Cell, ...]] = []
    for setup, found in taus.items():
        was, here = paper.SETUPS[setup], counts.get(setup, {})
        row: list[Cell] = [setup, was['tau'], cell(found)]
        for what in ('inconsistency', 'relevance'):
            value = here.get(what)
            row += [was[what], 'undefined: no count' if value is None else value]
        rows.append(tuple(row))
    by_sums = cell(_tau_of(summed.values, ranks, summed.reason))
    rows.append(('bot-bot, by sums of ranks', None, by_sums, *[None] * 4))
    human = paper.SETUPS['human-bot']
    published = human['tau'], human['inconsistency'], human['relevance']
    rows.append(('human-bot', *(c for one in published for c in (one, None))))
    notes.append(f'human-bot: not here: {paper.NOT_HERE["human-bot"][1]}')
    notes += _other_counts(counts)
    return Table('Table 7: chatting setups', SETUP_COLUMNS, tuple(rows), tuple(notes))


def _other_counts(counts: Mapping[str, Mapping[str, float | None]]) -> list[str]:
    """
    Say what other ways of counting the same relevance bonuses give.
    """
    return [
        f'{setup}, relevance {name}: {value:.2f}'
        for setup, of in counts.items()
        for name, value in of.items()
        if name not in ('inconsistency', 'relevance') and value is not None
    ]


def ablation_table(
    results: Tournament, judges: AnnotatorRanks, *, method: str, seed: int = 0
) -> Table:
    """
    Return Table 8: tau without each dimension, and with it alone.
    """
    ranks = mean_ranks(judges)
    games = [one.game for one in results.results]

    def found(dimensions: Sequence[str]) -> Cell:
        if not dimensions:
            return 'undefined: no dimension is left'
        part = tournament(games, dimensions=dimensions, systems=results.systems)
        return cell(rated_tau(part, ranks, method, seed=seed))

    rows: list[tuple[Cell, ...]] = []
    for dimension in results.dimensions:
        rest = [one for one in results.dimensions if one != dimension]
        published = paper.WITHOUT.get(dimension)
        rows.append((dimension, published, found(rest), found([dimension])))
    whole = found(results.dimensions)
    rows.append(('(none)', paper.WITHOUT['(none)'], whole, None))
    columns = ('without', 'paper', 'measured', 'with it alone')
    title = 'Table 8: dimensions left out'
    return Table(title, columns, tuple(rows), tuple(results.notes()))


def lengths_table(
    dialogues: Sequence[Dialogue],
    raw_of: RawOf,
    judges: AnnotatorRanks,
    *,
    method: str,
    seed: int = 0,
    exchanges: Sequence[int] = paper.EXCHANGES,
) -> Table:
    """
    Return Figure 4: tau of the same games cut after so many exchanges.
    """
    ranks = mean_ranks(judges)
    longest = max((len(one.utterances) for one in dialogues), default=0) // 2
    rows: list[tuple[Cell, ...]] = []
    for length in exchanges:
        if length > longest:
            rows.append((length, f'not here: no game has {length} exchanges'))
            continue
        cut = [truncated(one, length) for one in dialogues]
        results = tournament(games_of(cut, raw_of))
        rows.append((length, cell(rated_tau(results, ranks, method, seed=seed))))
    notes = (
        'the paper draws Figure 4 without numbers; its text says that no fewer than '
        '100 exchanges agree best',
        f'{paper.NOT_HERE["long"][0]}: not here: {paper.NOT_HERE["long"][1]}',
    )
    columns = ('exchanges', 'tau measured')
    return Table('Figure 4: number of exchanges', columns, tuple(rows), notes)


def baselines_table(dialogues: Sequence[Dialogue], judges: AnnotatorRanks) -> Table:
    """
    Return what tau trivial measures of the same games reach.
    """
    rows: list[tuple[Cell, ...]] = []
    for name, values in baselines(dialogues).items():
        found = correlate_with_annotators(values, judges)
        rows.append((name, cell(found), found.low, found.high))
    columns = ('baseline', 'tau', 'judges low', 'judges high')
    return Table('Trivial baselines', columns, tuple(rows))


def baselines(dialogues: Sequence[Dialogue]) -> dict[str, dict[str, float | None]]:
    """
    Return mean words a turn and share of unrepeated turns, means over games.
    """
    found: dict[str, dict[str, list[float]]] = {
        'mean words a turn': {},
        'share of unrepeated turns': {},
    }
    for dialogue in dialogues:
        for name in sorted({turn.speaker for turn in dialogue.utterances}):
            texts = [t.text for t in dialogue.utterances if t.speaker == name]
            repeated = repeated_share(texts)
            both = mean_length(texts), None if repeated is None else 1 - repeated
            for of, value in zip(found.values(), both, strict=True):
                of.setdefault(name, []).extend([] if value is None else [value])
    return {
        what: {name: _mean(values) for name, values in of.items()}
        for what, of in found.items()
    }


def not_here_table() -> Table:
    """
    Return the tables that need data nobody has, each with the reason.
    """
    rows = tuple(paper.NOT_HERE.values())
    return Table('Not measured', ('what', 'why'), rows)


def cell(found: Correlation) -> Cell:
    """
    Return a tau's value, or ``undefined:`` and why.
    """
    return f'undefined: {found.reason}' if found.value is None else found.value


def _tau_of(
    values: Mapping[str, float | None],
    ranks: Mapping[str, float | None],
    reason: str | None,
) -> Correlation:
    found = correlate_with_ranks(values, ranks)
    return replace(found, reason=reason) if reason else found


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
