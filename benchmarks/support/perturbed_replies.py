"""
Replies of people and their perturbed copies.

The kinds are those of the judge check, `parlai_ext/judge_check/perturbations.py`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.support.corpora import dailydialog, empathetic_dialogues
from parlai_ext.judge_check.perturbations import (
    HELD_OUT,
    PARROTS,
    SPOILT,
    ResponseInDialogue,
    parrot,
)
from parlai_ext.scoring.base import ScoringItem

LAST_TURNS = 6  # of a context, which are kept
EARLIER = 2  # turns before a reply: its partner's and one of its own speaker


@dataclass(frozen=True)
class PerturbedReply:
    """
    A reply, and its perturbed copies by kind.
    """

    original: ScoringItem
    copies: Mapping[str, ScoringItem]

    @property
    def items(self) -> list[ScoringItem]:
        """
        Return the original and then the copies.
        """
        return [self.original, *self.copies.values()]


CORPORA: Mapping[str, Callable[[Path], list[list[str]]]] = {
    'EmpatheticDialogues': lambda folder: empathetic_dialogues(folder, 'valid'),
    'DailyDialog': lambda folder: dailydialog(folder, 'validation'),
}


def perturbed_replies(
    dialogues: Sequence[Sequence[str]],
    number: int,
    seed: int,
    wordings: str = HELD_OUT,
) -> list[PerturbedReply]:
    """
    Return one random reply from each of this many dialogues, with its copies.

    Each has a partner's turn and an own turn before it. Copies that equal their
    original are left out.

    :param wordings: of the parrots: `TRAIN` for replies that something is fitted on.
    """
    rng = random.Random(seed)
    long = [texts for texts in dialogues if len(texts) > EARLIER]
    chosen = rng.sample(long, min(2 * number, len(long)))
    half = len(chosen) // 2
    return [
        perturbed_reply(
            texts, rng.randrange(EARLIER, len(texts)), rng.choice(other), wordings
        )
        for texts, other in zip(chosen[:half], chosen[half:], strict=False)
    ]


def perturbed_reply(
    texts: Sequence[str], place: int, other: str, wordings: str = HELD_OUT
) -> PerturbedReply:
    """
    Return the reply at a place of a dialogue with its copies.

    :param other: a reply from another dialogue.
    :param wordings: of the parrots.
    """
    original = ScoringItem(tuple(texts[:place][-LAST_TURNS:]), texts[place])
    response = ResponseInDialogue.alternating(texts[place], texts[:place], other)
    kinds = {**SPOILT, **{kind: parrot(kind, wordings) for kind in PARROTS}}
    copies = {
        kind: replace(original, response=text)
        for kind, perturb in kinds.items()
        if (text := response.spoilt(perturb)) is not None
    }
    return PerturbedReply(original, copies)


def shares_higher(
    scores: Sequence[Mapping[str, float | None]],
) -> dict[str, tuple[float, int]]:
    """
    Return, for each kind, the share of pairs in which the original scores higher (a tie
    counts half), and the number of pairs; pairs without a score are left out.

    :param scores: of each reply, by kind; the original's under ``original``.
    """
    wins: dict[str, list[float]] = {}
    for row in scores:
        own = row.get('original')
        for kind, value in row.items():
            if kind != 'original' and own is not None and value is not None:
                wins.setdefault(kind, []).append((own > value) + (own == value) / 2)
    return {kind: (sum(won) / len(won), len(won)) for kind, won in wins.items()}
