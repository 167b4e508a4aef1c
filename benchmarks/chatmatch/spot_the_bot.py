"""
Spot The Bot's own dialogues of bots: a tournament against the crowd's win rates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.chatmatch.crowd import Vote, crowd_tau, win_rates
from benchmarks.chatmatch.games import read_games, read_votes
from benchmarks.chatmatch.grid import Build, results_of, span
from benchmarks.chatmatch.robustness import games_range, leave_one_out
from benchmarks.chatmatch.tables import Cell, Table, baselines, cell
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue
from parlai_ext.ranking.ratings import ranked, rate
from parlai_ext.ranking.tournament import Tournament
from parlai_ext.scoring.chatmatch.scorer import ChatMatch

DIALOGUES = 'sampled-dialogues-full-{}.jsonl'
VOTES = 'annotated-dialogues-full-{}.jsonl'
# many games a pair: trueskill itself would take minutes
RATINGS = ('openskill', 'bradley_terry', '3-1-0', '2-1-0')
DRAWS = 100
COLUMNS = ('measure', 'tau', 'crowd (95 %)', 'without one bot', 'games (95 %)')


def read(folder: Path, domain: str) -> tuple[list[Dialogue], list[Vote]]:
    """
    Return the dialogues of bots of a domain, and the crowd's votes on them.
    """
    path = folder / DIALOGUES.format(domain)
    if not path.is_file():
        raise UserError(f'{path}: no such file; --data is the folder of Spot The Bot')
    dialogues = read_games(path, strip_markers=True)
    return dialogues, read_votes(folder / VOTES.format(domain), dialogues)


def crowd_table(
    dialogues: Sequence[Dialogue],
    votes: Sequence[Vote],
    build: Build,
    *,
    readings: Sequence[str],
    recognisers: Sequence[str],
    ratings: Sequence[str],
    seed: int = 0,
) -> Table:
    """
    Return tau with the crowd for every reading, recogniser and rating, and baselines.
    """
    rates = win_rates(votes)
    rows: list[tuple[Cell, ...]] = []
    signatures: list[str] = []
    notes: dict[str, None] = {
        'win rates of the crowd: '
        + ', '.join(f'{n} {r or 0.0:.3f}' for n, r in sorted(rates.items())): None
    }
    for name, build_one in _combinations(build, readings, recognisers):
        try:
            scorer = build_one()
            results = results_of(dialogues, scorer)
        except UserError as error:
            rows.append((name, f'skipped: {error}', None, None, None))
            continue
        signatures.append(scorer.signature)
        notes |= dict.fromkeys(f'{name}: {note}' for note in results.notes())
        rows += [_rated(name, one, results, votes, seed) for one in ratings]
    for name, values in baselines(dialogues).items():
        rows.append((*_crowd(name, values, votes, seed), None, None))
    title = f'Spot The Bot: tau-b with the crowd, {len(dialogues)} dialogues'
    return Table(title, COLUMNS, tuple(rows), tuple(notes), tuple(signatures))


def _rated(
    name: str, rating: str, results: Tournament, votes: Sequence[Vote], seed: int
) -> tuple[Cell, ...]:
    try:
        values = rate(results, rating, seed=seed).values
    except UserError as error:
        return (f'{name}, {rating}', f'skipped: {error}', *[None] * 3)
    ranks = ranked(win_rates(votes))
    others = leave_one_out(results, ranks, rating, seed=seed).values()
    games = games_range(results, ranks, rating, seed=seed, draws=DRAWS)
    there = [one.value for one in others if one.value is not None]
    return (
        *_crowd(f'{name}, {rating}', values, votes, seed),
        span(min(there, default=None), max(there, default=None)),
        span(games.low, games.high),
    )


def _combinations(
    build: Build, readings: Sequence[str], recognisers: Sequence[str]
) -> list[tuple[str, Callable[[], ChatMatch]]]:
    return [
        (f'{reading}, {one}', partial(build, reading, one))
        for reading in readings
        for one in recognisers
    ]


def _crowd(
    name: str, values: Mapping[str, float | None], votes: Sequence[Vote], seed: int
) -> tuple[Cell, Cell, Cell]:
    found = crowd_tau(values, votes, seed=seed)
    return name, cell(found), span(found.low, found.high)
