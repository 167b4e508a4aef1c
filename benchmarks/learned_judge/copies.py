"""
Replies of people and what should score below them: spoilt copies, parrots, and replies
that do not fit.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.learned_judge.judge_weights import WorsePairs
from benchmarks.support.corpora import LAST_TURNS, dailydialog, empathetic_dialogues
from benchmarks.support.perturbed_replies import (
    ORIGINAL,
    drawn_replies,
    share_higher,
    with_copies,
)
from parlai_ext.core import content_id
from parlai_ext.data.judged import read_card
from parlai_ext.files import json_lines
from parlai_ext.judge_check.perturbations import (
    HELD_OUT,
    PARROTS,
    SPOILT,
    TRAIN,
    Perturbation,
    ResponseInDialogue,
    parrot_text,
)
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.training.fit_judge import Inputs

BETTER_OF_A_CONTEXT = 2  # good replies to a context that a bad one is compared with
# kinds that a judge is slow to learn count more; chosen on the training copies
WEIGHTS = {
    'quoted_question': 2.5,
    'key_words': 2.5,
    'repeat_self': 2.0,
    'earlier_echo': 2.0,
    'other_dialogue': 2.0,
    'generic': 1.5,
    'flatterer': 1.5,
}


@dataclass(frozen=True)
class Copy:
    """
    A reply to a context: a good one (`ORIGINAL`), or a worse one of some kind.

    :param about: what it and the replies to the same context have in common.
    """

    about: str
    kind: str
    item: ScoringItem


def usr_dialogues(name: str) -> Callable[[Path, str], list[list[str]]]:
    """
    Return a reader of the dialogues between people from which a set of USR took its
    contexts.
    """

    def read(folder: Path, _split: str) -> list[list[str]]:
        items = read_card(name).read(folder).items
        texts = {
            item.context: [*item.context, item.response or '']
            for item in items
            if item.system == 'Original Ground Truth'
        }
        return [[t.strip() for t in texts[c] if t.strip()] for c in sorted(texts)]

    return read


READERS = {
    'dd': ('DailyDialog', dailydialog),
    'ed': ('EmpatheticDialogues', empathetic_dialogues),
    'topical': ('TopicalChat', usr_dialogues('usr_topical')),
    'persona': ('ConvAI2', usr_dialogues('usr_persona')),
}


@dataclass(frozen=True)
class SpoiltCopies:
    """
    Replies of people with their spoilt copies.

    :param corpus: of the dialogues, one of `READERS`.
    :param split: part of the corpus.
    :param number: of replies.
    :param for_training: with parrots in the wordings for training; checks have both.
    """

    name: str
    corpus: str
    split: str
    number: int
    for_training: bool = False

    @property
    def tag(self) -> str:
        """
        The name of the corpus.
        """
        return READERS[self.corpus][0]

    def read(self, folder: Path) -> list[Copy]:
        """
        Return the replies, each with its copies after it.
        """
        dialogues = READERS[self.corpus][1](folder, self.split)
        seed, wordings = (0, [TRAIN]) if self.for_training else (1, [TRAIN, HELD_OUT])
        copies: list[Copy] = []
        for k, reply in enumerate(drawn_replies(dialogues, self.number, seed)):
            draw = random.Random(content_id('parrots', self.name, k)).randrange(1000)
            parrots = {
                f'{kind}/{which}': _parrot(kind, draw, which)
                for kind in PARROTS
                for which in wordings
            }
            copies += [
                Copy(f'{self.name}-{k}', kind, item)
                for kind, item in with_copies(*reply, {**SPOILT, **parrots}).items()
            ]
        return copies


def _parrot(kind: str, number: int, wordings: str) -> Perturbation:
    """
    Return the perturbation that says what a parrot says in the wording of a number.
    """

    def parrot_reply(response: ResponseInDialogue) -> str | None:
        return parrot_text(kind, response.heard, number, wordings)

    return parrot_reply


class UnfitReplies(SpoiltCopies):
    """
    Contexts of DailyDialog++ with good, adversarial and random replies.
    """

    def read(self, folder: Path) -> list[Copy]:
        """
        Return the replies, context by context.
        """
        path = folder / 'dailydialog_pp' / f'{self.split}.json'
        data = [row for _, row in json_lines(path)]
        rng = random.Random(self.split)
        copies = []
        for k, one in enumerate(rng.sample(data, self.number)):
            context = tuple(one['context'][-LAST_TURNS:])
            for key, kind, n in (
                ('positive_responses', ORIGINAL, 2),
                ('adversarial_negative_responses', 'adversarial', 2),
                ('random_negative_responses', 'random', 1),
            ):
                copies += [
                    Copy(f'{self.name}-{k}', kind, ScoringItem(context, reply))
                    for reply in rng.sample(one[key], n)
                ]
        return copies


COPIES: Mapping[str, SpoiltCopies] = {
    one.name: one
    for one in (
        SpoiltCopies('copies_dd', 'dd', 'train', 200, for_training=True),
        SpoiltCopies('copies_ed', 'ed', 'train', 200, for_training=True),
        SpoiltCopies('check_dd', 'dd', 'test', 50),
        SpoiltCopies('check_ed', 'ed', 'test', 50),
        SpoiltCopies('check_topical', 'topical', 'all', 25),
        SpoiltCopies('check_persona', 'persona', 'all', 25),
        UnfitReplies('adversarial_dd', 'dd', 'dev', 200, for_training=True),
        UnfitReplies('check_adversarial_dd', 'dd', 'test', 60),
    )
}


def pair_places(copies: Sequence[Copy]) -> dict[str, np.ndarray]:
    """
    Return by kind ``[pairs, 2]``, the places of a good reply and of a worse one to the
    same context.
    """
    good: dict[str, list[int]] = {}
    for i, copy in enumerate(copies):
        if copy.kind == ORIGINAL:
            good.setdefault(copy.about, []).append(i)
    places: dict[str, list[tuple[int, int]]] = {}
    for i, copy in enumerate(copies):
        if copy.kind != ORIGINAL:
            for j in good.get(copy.about, [])[:BETTER_OF_A_CONTEXT]:
                places.setdefault(copy.kind, []).append((j, i))
    return {kind: np.array(pairs) for kind, pairs in places.items()}


def worse_pairs(copies: Sequence[Copy], inputs: Inputs) -> list[WorsePairs]:
    """
    Return the pairs that a judge is learned from, kind by kind.
    """
    return [
        WorsePairs(
            {block: rows[places[:, 0]] for block, rows in inputs.items()},
            {block: rows[places[:, 1]] for block, rows in inputs.items()},
            WEIGHTS.get(kind.split('/')[0], 1.0),
        )
        for kind, places in pair_places(copies).items()
    ]


def shares_higher(copies: Sequence[Copy], scores: np.ndarray) -> dict[str, float]:
    """
    Return by kind in what share of the pairs the good reply scores higher; a tie counts
    as half.
    """
    return {
        kind: share_higher(*scores[places.T])
        for kind, places in pair_places(copies).items()
    }
