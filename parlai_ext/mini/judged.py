"""
Dialogues that end in a reaction: what the judge learns from.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace

from parlai_ext.mini.corruptions import TRAIN, Spoiler
from parlai_ext.mini.reactions import complaint, praise
from parlai_ext.mini.smalltalk import Turn, dialogue, pick


@dataclass(frozen=True)
class Judged:
    """
    A context whose last turn is good (`kind` is `None`) or spoilt, and what follows.
    """

    context: tuple[str, ...]
    reply: str
    kind: str | None


def spoil(
    rng: random.Random,
    turns: list[Turn],
    other: tuple[Turn, ...],
    kinds: Mapping[str, Spoiler] = TRAIN,
) -> tuple[Turn, str | None]:
    """
    Return the last of ``turns``, spoilt, and how; `None` when that left it as it was.
    """
    kind = pick(rng, sorted(kinds))
    text = kinds[kind](rng, turns, other)
    changed = text != turns[-1].text
    return replace(turns[-1], text=text), kind if changed else None


def judged(
    fold: str, seed: int, index: int, kinds: Mapping[str, Spoiler] = TRAIN
) -> Judged:
    """
    Return example ``index`` of a fold.

    Examples come in twins: the same context, its last turn good and spoilt, so that
    only this turn tells which reaction follows. Both speakers may have been bad before.
    """
    twins, odd = divmod(index, 2)
    rng = random.Random(f'judged/{fold}/{seed}/{twins}')
    turns = list(dialogue(fold, seed, twins))
    other = dialogue(fold, seed + 1, twins)
    last = 1 + int(rng.random() * (len(turns) - 1))
    own_rate = 0.7 if rng.random() < 0.2 else 0.0
    their_rate = 0.5 if rng.random() < 0.15 else 0.0
    said: list[Turn] = []
    for i, turn in enumerate(turns[:last]):
        rate = own_rate if (last - i) % 2 == 0 else their_rate
        said.append(turn)
        if i > 0 and rng.random() < rate:
            said[-1] = spoil(rng, said, other, kinds)[0]
    said.append(turns[last])
    kind = None
    if odd:
        said[-1], kind = spoil(rng, said, other, kinds)
    if kind is not None:
        reply = complaint(rng, kind)
    elif last + 1 < len(turns) and rng.random() < 0.5:
        reply = turns[last + 1].text
    else:
        reply = praise(rng)
    return Judged(tuple(turn.text for turn in said), reply, kind)
