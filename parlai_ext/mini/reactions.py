"""
Reactions of a partner to the turn before (praise, or a complaint of one family), and
examples that end in one: the training data of the judge.

A small grammar (`reactions.json`): ``[a|b]`` stands for either. The sentences mean what
the shipped follow-ups mean and share words with them; none is one of the follow-ups.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from parlai_ext.files.text_file import read_json
from parlai_ext.mini.corruptions import TRAIN, Corrupted, Corruption
from parlai_ext.mini.smalltalk import GeneratedTurn, join_sentences, make_dialogue, pick

_sentences = read_json(Path(__file__).with_name('reactions.json'), dict)
FAMILIES: dict[str, list[str]] = _sentences['families']
# Short reactions say good or bad in a word; a small judge learns the difference from
# them long before it can from whole sentences.
SHORT: dict[str, list[str]] = _sentences['short']
SHORT_SHARE = 0.5
COMPLAINTS = tuple(name for name in FAMILIES if name != 'praise')
LEADS = ('Sorry,', 'Hm,', 'Honestly,', 'To be honest,', 'Well,')
PRAISE_LEADS = ('Oh,', 'You know,', 'To be honest,', 'Well,')

# the family of complaints about each kind of corruption, besides plain dislike
BLAME: dict[str, str] = _sentences['blame']

_CHOICE = re.compile(r'\[([^\]]*)\]')


def expand(rng: random.Random, pattern: str) -> str:
    """
    Return one sentence of ``pattern``, drawn at random.
    """
    return _CHOICE.sub(lambda match: pick(rng, match.group(1).split('|')), pattern)


def complaint(rng: random.Random, kind: str) -> str:
    """
    Return a complaint about a turn that is corrupted in this way.
    """
    chance = rng.random()
    if chance < 0.4:
        family = BLAME[kind]
    elif chance < 0.85:
        family = 'dislike'
    else:
        family = pick(rng, COMPLAINTS)
    return _with_lead(rng, LEADS, _reaction(rng, family))


def _reaction(rng: random.Random, family: str) -> str:
    """
    Return a random reaction of a family: one of the short ones, or of a longer pattern.
    """
    if rng.random() < SHORT_SHARE:
        return pick(rng, SHORT[family])
    return expand(rng, pick(rng, FAMILIES[family]))


def _with_lead(rng: random.Random, leads: tuple[str, ...], text: str) -> str:
    return join_sentences(pick(rng, leads), text) if rng.random() < 0.15 else text


@dataclass(frozen=True)
class Example:
    """
    A context whose last turn is good (`kind` is `None`) or corrupted, and the reply.
    """

    context: tuple[str, ...]
    reply: str
    kind: str | None = None


def corrupt_last_turn(
    rng: random.Random,
    turns: list[GeneratedTurn],
    other: tuple[GeneratedTurn, ...],
    kinds: Mapping[str, Corruption],
) -> tuple[GeneratedTurn, str | None]:
    """
    Return the last of ``turns``, corrupted, and the kind of corruption; `None` instead
    of a kind if the corruption left the turn unchanged.
    """
    kind = pick(rng, sorted(kinds))
    text = kinds[kind](Corrupted(rng, turns, other))
    changed = text != turns[-1].text
    return replace(turns[-1], text=text), kind if changed else None


def make_reaction_example(
    fold: str, seed: int, index: int, kinds: Mapping[str, Corruption] = TRAIN
) -> Example:
    """
    Return example ``index`` of a fold.

    Examples come in twins with the same context, whose last turn is good in one and
    corrupted in the other, so that only this turn decides which reaction follows.
    Earlier turns of both speakers may be corrupted, too.
    """
    twins, odd = divmod(index, 2)
    rng = random.Random(f'judged/{fold}/{seed}/{twins}')
    turns = list(make_dialogue(fold, seed, twins))
    other = make_dialogue(fold, seed + 1, twins)
    last = 1 + int(rng.random() * (len(turns) - 1))
    own_rate = 0.7 if rng.random() < 0.2 else 0.0
    their_rate = 0.5 if rng.random() < 0.15 else 0.0
    context: list[GeneratedTurn] = []
    for i, turn in enumerate(turns[:last]):
        rate = own_rate if (last - i) % 2 == 0 else their_rate
        context.append(turn)
        if i > 0 and rng.random() < rate:
            context[-1] = corrupt_last_turn(rng, context, other, kinds)[0]
    context.append(turns[last])
    kind = None
    if odd:
        context[-1], kind = corrupt_last_turn(rng, context, other, kinds)
    if kind is not None:
        reply = complaint(rng, kind)
    elif last + 1 < len(turns) and rng.random() < 0.5:
        reply = turns[last + 1].text
    else:
        reply = _with_lead(rng, PRAISE_LEADS, _reaction(rng, 'praise'))
    return Example(tuple(turn.text for turn in context), reply, kind)
