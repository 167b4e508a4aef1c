"""
Replies of people and their perturbed copies.

The kinds are those of the judge check, `parlai_ext/judge_check/perturbations.py`.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.support.corpora import LAST_TURNS
from parlai_ext.judge_check.perturbations import (
    HELD_OUT,
    PARROTS,
    SPOILT,
    Perturbations,
    ResponseInDialogue,
    parrot,
)
from parlai_ext.scoring.base import ScoringItem

EARLIER = 2  # turns before a reply: its partner's and one of its own speaker
ORIGINAL = 'original'  # the kind of a reply as it was said


def drawn_replies(
    dialogues: Sequence[Sequence[str]], number: int, seed: int
) -> Iterator[tuple[Sequence[str], int, str]]:
    """
    Yield one random reply from each of this many dialogues: the dialogue's texts, the
    place of the reply, and a reply from another dialogue.

    Each has a partner's turn and an own turn before it.
    """
    rng = random.Random(seed)
    long = [texts for texts in dialogues if len(texts) > EARLIER]
    chosen = rng.sample(long, min(2 * number, len(long)))
    half = len(chosen) // 2
    for texts, other in zip(chosen[:half], chosen[half:], strict=False):
        yield texts, rng.randrange(EARLIER, len(texts)), rng.choice(other)


def perturbed_replies(
    dialogues: Sequence[Sequence[str]],
    number: int,
    seed: int,
    wordings: str = HELD_OUT,
) -> list[dict[str, ScoringItem]]:
    """
    Return drawn replies with their copies, as `with_copies` does.

    :param wordings: of the parrots: `TRAIN` for replies that something is fitted on.
    """
    kinds = {**SPOILT, **{kind: parrot(kind, wordings) for kind in PARROTS}}
    return [with_copies(*one, kinds) for one in drawn_replies(dialogues, number, seed)]


def with_copies(
    texts: Sequence[str], place: int, other: str, kinds: Perturbations
) -> dict[str, ScoringItem]:
    """
    Return the reply at a place of a dialogue, as `ORIGINAL`, and after it its perturbed
    copies by kind. Copies that equal their original are left out.

    :param place: its speaker has a turn before it.
    :param other: a reply from another dialogue.
    """
    original = ScoringItem(tuple(texts[:place][-LAST_TURNS:]), texts[place])
    response = ResponseInDialogue(
        texts[place],
        texts[1 - place % 2 : place : 2],  # two speakers take turns
        texts[place - 2],
        other,
    )
    copies = {
        kind: replace(original, response=text)
        for kind, perturb in kinds.items()
        if (text := response.spoilt(perturb)) is not None
    }
    return {ORIGINAL: original, **copies}


def share_higher(better: np.ndarray, worse: np.ndarray) -> float:
    """
    Return the share of pairs in which the better reply scores higher; a tie counts as
    half.
    """
    return float(np.mean((np.sign(better - worse) + 1) / 2))
