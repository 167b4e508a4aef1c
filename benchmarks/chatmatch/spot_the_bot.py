"""
Spot The Bot (Deriu et al. 2020): ChatMatch's tau with the win rates of its annotators.

An annotator says of both sides of a dialogue whether a human spoke. A side judged human
beats one left undecided, and that one a side judged a bot. A system's win rate is its
wins over all annotations of it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.chatmatch.annotators import over_draws
from benchmarks.chatmatch.games import read_games
from benchmarks.chatmatch.robustness import range_over_games, range_without_each
from benchmarks.chatmatch.tables import (
    BuildScorer,
    Cell,
    Table,
    baselines,
    measured_readings,
    range_cell,
    tau_cell,
)
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue
from parlai_ext.files.text_file import read_utf8
from parlai_ext.ranking.agreement import Correlation, correlate_with_ranks
from parlai_ext.ranking.ratings import rank_values, rate
from parlai_ext.ranking.table import Floats
from parlai_ext.tournament.games import Tournament

DIALOGUES = 'sampled-dialogues-full-{}.jsonl'
VOTES = 'annotated-dialogues-full-{}.jsonl'
# TrueSkill is left out: with so many games a pair it would take minutes
RATINGS = ('openskill', 'bradley_terry', '3-1-0', '2-1-0')
ANNOTATOR_DRAWS = 1000
GAME_DRAWS = 100
COLUMNS = (
    'measure',
    'rating',
    'tau',
    'crowd (95 %)',
    'without one bot',
    'games (95 %)',
)
GRADES = {True: 2, None: 1, False: 0}  # of `is_human`


@dataclass(frozen=True)
class Vote:
    """
    One annotator's preference in one dialogue; `winner` is `None` for a draw.
    """

    rater: str
    one: str
    other: str
    winner: str | None


def read(folder: Path, domain: str) -> tuple[list[Dialogue], list[Vote]]:
    """
    Return the dialogues between bots of a domain, and the annotators' votes on them.
    """
    path = folder / DIALOGUES.format(domain)
    if not path.is_file():
        raise UserError(f'{path}: no such file; --data is the folder of Spot The Bot')
    dialogues = read_games(path, strip_markers=True)
    return dialogues, read_votes(folder / VOTES.format(domain), dialogues)


def read_votes(path: Path, dialogues: Sequence[Dialogue]) -> list[Vote]:
    """
    Return the votes on these dialogues.

    :raises UserError: names the file and the line that is no annotation.
    """
    # side 0 always begins
    speakers = {
        one.id: [turn.speaker for turn in one.utterances[:2]] for one in dialogues
    }
    votes = []
    for number, line in enumerate(read_utf8(path).split('\n'), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            pair = speakers.get(row['convo_id'])
            grades = [GRADES[row[f'entity{k}_annotation']['is_human']] for k in (0, 1)]
            rater = str(row['user_name'])
        except (ValueError, KeyError, TypeError) as e:
            raise UserError(f'{path}:{number}: no annotation: {e!r}') from None
        if pair is not None:
            tied = grades[0] == grades[1]
            winner = None if tied else pair[int(grades[1] > grades[0])]
            votes.append(Vote(rater, *pair, winner))
    return votes


def win_rates(votes: Sequence[Vote]) -> dict[str, float | None]:
    """
    Return each system's share of votes won.
    """
    names = sorted({name for vote in votes for name in (vote.one, vote.other)})
    wins, totals = _votes_by_annotator(votes, names)
    shares = wins.sum(axis=0) / totals.sum(axis=0)
    return dict(zip(names, shares.tolist(), strict=True))


def crowd_tau(
    values: Mapping[str, float | None], votes: Sequence[Vote], *, seed: int = 0
) -> Correlation:
    """
    Return tau-b of values with win rates, and its 95 % range over annotators drawn
    anew.
    """
    rates = win_rates(votes)
    whole = correlate_with_ranks(values, rank_values(rates))
    if whole.value is None:
        return whole
    names = [name for name in rates if values.get(name) is not None]
    wins, totals = _votes_by_annotator(votes, names)
    n = len(wins)
    chosen = np.random.default_rng([seed % 2**32, 5]).integers(
        n, size=(ANNOTATOR_DRAWS, n)
    )
    drawn = np.stack([(chosen == i).sum(axis=1) for i in range(n)], axis=1)
    left = np.array([float(values[name] or 0.0) for name in names])
    return over_draws(whole, left, wins, totals, drawn)


def _votes_by_annotator(
    votes: Sequence[Vote], names: Sequence[str]
) -> tuple[Floats, Floats]:
    """
    Return two arrays ``[annotator, system]``: votes won, and all votes on the system.
    """
    raters = sorted({vote.rater for vote in votes})
    wins, totals = (np.zeros((len(raters), len(names))) for _ in range(2))
    for vote in votes:
        for name in {vote.one, vote.other} & {*names}:
            place = raters.index(vote.rater), names.index(name)
            totals[place] += 1
            wins[place] += name == vote.winner
    return wins, totals


def crowd_table(
    dialogues: Sequence[Dialogue],
    votes: Sequence[Vote],
    build_scorer: BuildScorer,
    *,
    readings: Sequence[str],
    recognisers: Sequence[str],
    ratings: Sequence[str] = RATINGS,
    seed: int = 0,
) -> Table:
    """
    Return tau with the crowd for every reading, recogniser, rating and baseline.
    """
    rates = win_rates(votes)
    ranks = rank_values(rates)

    def crowd_cells(values: Mapping[str, float | None]) -> tuple[Cell, Cell]:
        tau = crowd_tau(values, votes, seed=seed)
        return tau_cell(tau), range_cell(tau.low, tau.high)

    def measure(results: Tournament, rating: str) -> list[Cell]:
        values = rate(results, rating, seed=seed).values
        without = range_without_each(results, ranks, rating, seed=seed)
        games = range_over_games(results, ranks, rating, seed=seed, draws=GAME_DRAWS)
        ranges = (
            range_cell(*(without or (None, None))),
            range_cell(games.low, games.high),
        )
        return [*crowd_cells(values), *ranges]

    names = product(readings, recognisers)
    table = measured_readings(dialogues, build_scorer, names, ratings, measure)
    trivial = [
        (name, '', *crowd_cells(values))
        for name, values in baselines(dialogues).items()
    ]
    shown = ', '.join(f'{n} {r or 0.0:.3f}' for n, r in sorted(rates.items()))
    return Table(
        f'Spot The Bot: tau-b with the crowd, {len(dialogues)} dialogues',
        COLUMNS,
        (*table.rows, *trivial),
        (f'win rates of the crowd: {shown}', *table.notes),
        table.signatures,
    )
