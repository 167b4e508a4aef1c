"""
Every reading, entity recogniser and rating: tau, and how far it would move.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from benchmarks.chatmatch import published as paper
from benchmarks.chatmatch.games import materials, raw_maker
from benchmarks.chatmatch.robustness import Robust, robust
from benchmarks.chatmatch.tables import Cell, Table, baselines, cell, games_of
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Answer as Said
from parlai_ext.core.nouns import Dialogue, Likelihood, Question
from parlai_ext.ranking.agreement import AnnotatorRanks, correlate_with_annotators
from parlai_ext.ranking.ratings import rate
from parlai_ext.ranking.tournament import Tournament, tournament
from parlai_ext.scoring.chatmatch.scorer import ChatMatch

RATINGS = ('openskill', 'trueskill', 'bradley_terry', '3-1-0', '2-1-0')
PUBLISHED = {**paper.TAU, 'openskill': paper.TAU['trueskill']}
COLUMNS = (
    'reading, entities',
    'rating',
    'paper',
    'tau',
    'judges (95 %)',
    'without one bot',
    'games (95 %)',
    'shuffles (all)',
)
NOTES = (
    'judges: every draw of the judges; without one bot: smallest and largest tau of '
    "the others' tournament; games: drawn anew within each pair, a figure of "
    'sensitivity and no interval, since games share bots; shuffles: the seeds 0 to 49',
    'paper: its TrueSkill, 3-1-0 and 2-1-0; its reading of its own text is unknown',
)

Build = Callable[[str, str], ChatMatch]


class Remembered:
    """
    A likelihood that answers a question it has answered before from memory.
    """

    def __init__(self, asked: Likelihood):
        self.asked = asked
        self.signature = asked.signature
        self.known: dict[Question, Said] = {}

    def answer(
        self, questions: Sequence[Question], with_context: bool = False
    ) -> list[Said]:
        """
        Return one `Answer` for each question, in their order.
        """
        if with_context:
            return self.asked.answer(questions, with_context=True)
        new = [q for q in dict.fromkeys(questions) if q not in self.known]
        self.known |= dict(zip(new, self.asked.answer(new) if new else [], strict=True))
        return [self.known[question] for question in questions]


def results_of(dialogues: Sequence[Dialogue], scorer: ChatMatch) -> Tournament:
    """
    Return the tournament of these games in a scorer's reading.
    """
    raw_of = raw_maker(scorer.rules, materials(dialogues, scorer))
    return tournament(games_of(dialogues, raw_of))


def grid_table(
    dialogues: Sequence[Dialogue],
    judges: AnnotatorRanks,
    build: Build,
    *,
    readings: Iterable[str],
    recognisers: Iterable[str],
    ratings: Iterable[str] = RATINGS,
    seed: int = 0,
) -> Table:
    """
    Return one row for each combination, and the trivial baselines beside; what cannot
    be had here says why.

    :param build: gives the scorer of a reading and a recogniser, or raises `UserError`.
    """
    rows: list[tuple[Cell, ...]] = []
    notes: dict[str, None] = {}
    signatures: list[str] = []
    recognisers = list(recognisers)
    for reading in readings:
        for recogniser in recognisers:
            name = f'{reading}, {recogniser}'
            try:
                scorer = build(reading, recogniser)
                results = results_of(dialogues, scorer)
            except UserError as error:
                rows.append((name, '', None, f'skipped: {error}', *[None] * 4))
                continue
            signatures.append(scorer.signature)
            notes |= dict.fromkeys(f'{name}: {note}' for note in results.notes())
            for rating in ratings:
                rows.append(_row(name, rating, results, judges, seed))
    rows += [_trivial(*one, judges) for one in baselines(dialogues).items()]
    title = 'Agreement with the judges (tau-b) by reading, entities and rating'
    for rating in ratings:
        with suppress(UserError):  # its rows say that it is not installed
            signatures.append(rate(tournament([]), rating, seed=seed).signature)
    return Table(title, COLUMNS, tuple(rows), (*NOTES, *notes), tuple(signatures))


def _row(
    name: str, rating: str, results: Tournament, judges: AnnotatorRanks, seed: int
) -> tuple[Cell, ...]:
    published = PUBLISHED.get(rating)
    try:
        found = robust(results, judges, rating, seed=seed)
    except UserError as error:
        return (name, rating, published, f'skipped: {error}', *[None] * 4)
    return (name, rating, published, cell(found.judges), *ranges(found))


def _trivial(
    name: str, values: Mapping[str, float | None], judges: AnnotatorRanks
) -> tuple[Cell, ...]:
    found = correlate_with_annotators(values, judges)
    return (name, '', None, cell(found), span(found.low, found.high), *[None] * 3)


def ranges(found: Robust) -> tuple[str | None, ...]:
    """
    Return the four ranges of a rating as words.
    """
    pairs = (
        (found.judges.low, found.judges.high),
        found.without_range or (None, None),
        (found.games.low, found.games.high),
        (found.orders.low, found.orders.high),
    )
    return tuple(span(low, high) for low, high in pairs)


def span(low: float | None, high: float | None) -> str | None:
    """
    Return a range in two digits, `None` where there is none.
    """
    return None if low is None or high is None else f'{low:.2f} … {high:.2f}'
