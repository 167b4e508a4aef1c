"""
Spot The Bot (Deriu et al. 2020): ChatMatch's tau with the win rates of its annotators.

An annotator says of both sides of a dialogue whether a human spoke. A side judged human
beats one left undecided, and that one a side judged a bot. A system's win rate is its
wins over all annotations of it.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from benchmarks.chatmatch.games import read_games
from benchmarks.chatmatch.tables import (
    BuildScorer,
    Row,
    Table,
    baseline_rows,
    measured_readings,
    tau_cell,
)
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue
from parlai_ext.files.text_file import read_utf8
from parlai_ext.ranking.agreement import correlate_with_ranks
from parlai_ext.ranking.ratings import rank_values, rate
from parlai_ext.tournament.games import Tournament

DIALOGUES = 'sampled-dialogues-full-{}.jsonl'
VOTES = 'annotated-dialogues-full-{}.jsonl'
# TrueSkill is left out: with so many games a pair it would take minutes
RATINGS = ('openskill', 'bradley_terry', '3-1-0', '2-1-0')
GRADES = {True: 2, None: 1, False: 0}  # of `is_human`


@dataclass(frozen=True)
class Vote:
    """
    An annotator's preference in one dialogue; `winner` is `None` for a draw.
    """

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
        except (ValueError, KeyError, TypeError) as e:
            raise UserError(f'{path}:{number}: no annotation: {e!r}') from None
        if pair is not None:
            tied = grades[0] == grades[1]
            winner = None if tied else pair[int(grades[1] > grades[0])]
            votes.append(Vote(*pair, winner))
    return votes


def win_rates(votes: Sequence[Vote]) -> dict[str, float | None]:
    """
    Return each system's share of votes won.
    """
    votes_on = Counter(name for vote in votes for name in (vote.one, vote.other))
    wins = Counter(vote.winner for vote in votes)
    return {name: wins[name] / votes_on[name] for name in sorted(votes_on)}


def crowd_table(
    dialogues: Sequence[Dialogue],
    votes: Sequence[Vote],
    build_scorer: BuildScorer,
    readings: Sequence[str],
    recognisers: Sequence[str],
    seed: int = 0,
) -> Table:
    """
    Return tau with the crowd for every reading, recogniser, rating and baseline.
    """
    rates = win_rates(votes)
    ranks = rank_values(rates)

    def measure(results: Tournament, rating: str) -> Row:
        values = rate(results, rating, seed=seed).values
        return (tau_cell(correlate_with_ranks(values, ranks)),)

    names = product(readings, recognisers)
    rows = [
        *measured_readings(dialogues, build_scorer, names, RATINGS, measure),
        *(row[:3] for row in baseline_rows(dialogues, ranks)),
    ]
    shown = ', '.join(f'{n} {r or 0.0:.3f}' for n, r in sorted(rates.items()))
    title = f'Spot The Bot: tau-b with the crowd, {len(dialogues)} dialogues'
    notes = (f'win rates of the crowd: {shown}',)
    return Table(title, ('measure', 'rating', 'tau'), tuple(rows), notes)
