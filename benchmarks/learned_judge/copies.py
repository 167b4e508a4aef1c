"""
Replies of people and what should score below them: spoilt copies, parrots, and replies
that do not fit.
"""

import json
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
from parlai_ext.data.judged.cards import read_card
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


@dataclass(frozen=True)
class CopySource:
    """
    :param tag: the corpus of the dialogues.
    :param wordings: of parrots. Those that are held out are for checks only.
    """

    read: Callable[[Path], list[Copy]]
    tag: str
    for_training: bool


def spoilt_copies(
    dialogues: Sequence[Sequence[str]],
    name: str,
    number: int,
    seed: int,
    wordings: Sequence[str],
) -> list[Copy]:
    """
    Return replies of people with their spoilt copies.
    """
    copies: list[Copy] = []
    for k, reply in enumerate(drawn_replies(dialogues, number, seed)):
        draw = random.Random(content_id('parrots', name, k)).randrange(1000)
        parrots = {
            f'{kind}/{which}': _parrot(kind, draw, which)
            for kind in PARROTS
            for which in wordings
        }
        copies += [
            Copy(f'{name}-{k}', kind, item)
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


def unfit_replies(folder: Path, split: str, name: str, number: int) -> list[Copy]:
    """
    Return contexts of DailyDialog++ with good, adversarial and random replies.
    """
    path = folder / 'dailydialog_pp' / f'{split}.json'
    lines = path.read_text(encoding='utf-8').split('\n')
    data = [json.loads(line) for line in lines if line.strip()]
    rng = random.Random(split)
    copies = []
    for k, one in enumerate(rng.sample(data, number)):
        context = tuple(one['context'][-LAST_TURNS:])
        for key, kind, n in (
            ('positive_responses', ORIGINAL, 2),
            ('adversarial_negative_responses', 'adversarial', 2),
            ('random_negative_responses', 'random', 1),
        ):
            copies += [
                Copy(f'{name}-{k}', kind, ScoringItem(context, reply))
                for reply in rng.sample(one[key], n)
            ]
    return copies


def _spoilt(
    read: Callable[[Path, str], list[list[str]]],
    split: str,
    name: str,
    number: int,
    seed: int,
    *wordings: str,
) -> Callable[[Path], list[Copy]]:
    return lambda folder: spoilt_copies(
        read(folder, split), name, number, seed, wordings
    )


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
# name, part of the corpus and number of replies; those of checks have both wordings
TRAINING = (('copies_dd', 'train', 200), ('copies_ed', 'train', 200))
CHECKS = (
    ('check_dd', 'test', 50),
    ('check_ed', 'test', 50),
    ('check_topical', 'all', 25),
    ('check_persona', 'all', 25),
)
COPIES: Mapping[str, CopySource] = {
    **{
        name: CopySource(
            _spoilt(read, split, name, number, seed, *wordings), tag, learn
        )
        for plans, seed, wordings, learn in (
            (TRAINING, 0, (TRAIN,), True),
            (CHECKS, 1, (TRAIN, HELD_OUT), False),
        )
        for name, split, number in plans
        for tag, read in [READERS[name.partition('_')[2]]]
    },
    'adversarial_dd': CopySource(
        lambda folder: unfit_replies(folder, 'dev', 'adversarial_dd', 200),
        'DailyDialog',
        True,
    ),
    'check_adversarial_dd': CopySource(
        lambda folder: unfit_replies(folder, 'test', 'check_adversarial_dd', 60),
        'DailyDialog',
        False,
    ),
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
