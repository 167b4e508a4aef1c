"""
Ways to spoil a turn, by name.

The judge learns from `TRAIN` kinds only. `HELD_OUT` kinds stay unseen by it: the floors
of the demo and the check of the judge use them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from parlai_ext.mini.smalltalk import TOPICS, Turn, capital, pick
from parlai_ext.mini.topics import DETAILS

# a spoiler sees the draws, the turns so far (the one to spoil last), and other turns
Spoiler = Callable[[random.Random, Sequence[Turn], Sequence[Turn]], str]

GENERIC = (
    'I do not know.',
    'Maybe.',
    'Okay.',
    'That is fine.',
    'It depends.',
    'I am not sure.',
    'Whatever you think.',
    'All right then.',
)

ITEMS = tuple(x for topic in TOPICS for x in topic.items)
WORDS = tuple(
    sorted({word for topic in TOPICS for one in topic.items for word in one.split()})
    + sorted({w for one in DETAILS.values() for v in one.values for w in v.split()})
)


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new).replace(capital(old), capital(new))


def off_topic(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    A turn from another dialogue.
    """
    return pick(rng, other).text


def wrong_slot(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    Another value where one was taken up; off topic when the turn takes up none.
    """
    before = ' '.join(turn.text.lower() for turn in turns[-3:-1])
    named = [
        one
        for one in turns[-1].slots
        if one in ITEMS and one in turns[-1].text and one.lower() in before
    ]
    if not named:
        return off_topic(rng, turns, other)
    old = pick(rng, named)
    return _replace(turns[-1].text, old, pick(rng, [x for x in ITEMS if x != old]))


def repeat_self(
    rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]
) -> str:
    """
    What the same speaker said before.
    """
    own = turns[-3::-2]
    return pick(rng, own).text if own else stutter(rng, turns, other)


def echo(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    What the other speaker just said.
    """
    return turns[-2].text if len(turns) > 1 else stutter(rng, turns, other)


def stutter(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    Some words said two or three times.
    """
    words = turns[-1].text.split()
    said: list[str] = []
    for word in words:
        said += [word] * (1 if rng.random() < 0.6 else 2 + int(rng.random() * 2))
    return ' '.join(said + words[-1:])


def loop(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    A few words said over and over.
    """
    words = turns[-1].text.split()
    start = int(rng.random() * len(words))
    size = 1 + int(rng.random() * 3)
    piece = words[start : start + size]
    return ' '.join(words[:start] + piece * (3 + int(rng.random() * 4)))


def drop_words(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    The turn with about half of its words missing.
    """
    words = turns[-1].text.split()
    kept = [word for word in words if rng.random() < 0.55]
    return ' '.join(
        kept if 0 < len(kept) < len(words) else words[1::2] or words[:1] * 2
    )


def random_words(
    rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]
) -> str:
    """
    The turn with about half of its words replaced by any others.
    """
    words = turns[-1].text.split()
    fixed = int(rng.random() * len(words))
    return ' '.join(
        pick(rng, WORDS) if i == fixed or rng.random() < 0.4 else word
        for i, word in enumerate(words)
    )


def mash(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    The start of this turn glued to the end of a turn from elsewhere.
    """
    left, right = turns[-1].text.split(), pick(rng, other).text.split()
    cut = 1 + int(rng.random() * max(1, len(left) - 1))
    return ' '.join(left[:cut] + right[len(right) // 2 :])


def no_detail(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    The turn with every value replaced by something vague.
    """
    text = turns[-1].text
    for old in turns[-1].slots:
        text = _replace(text, old, pick(rng, ('something', 'some thing', 'stuff')))
    return text if text != turns[-1].text else off_topic(rng, turns, other)


def word_salad(rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]) -> str:
    """
    The turn's own words, shuffled.
    """
    words = turns[-1].text.split()
    for i in range(len(words) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        words[i], words[j] = words[j], words[i]
    return ' '.join(words)


def generic_reply(
    rng: random.Random, turns: Sequence[Turn], other: Sequence[Turn]
) -> str:
    """
    An answer that fits everything and says nothing.
    """
    return pick(rng, GENERIC)


TRAIN: dict[str, Spoiler] = {
    'off_topic': off_topic,
    'wrong_slot': wrong_slot,
    'repeat_self': repeat_self,
    'echo': echo,
    'stutter': stutter,
    'loop': loop,
    'drop_words': drop_words,
    'random_words': random_words,
    'mash': mash,
    'no_detail': no_detail,
}
# seen in the turn itself: what the judge starts with
EASY = {
    kind: TRAIN[kind]
    for kind in ('stutter', 'loop', 'drop_words', 'random_words', 'no_detail')
}
HELD_OUT: dict[str, Spoiler] = {
    'word_salad': word_salad,
    'generic_reply': generic_reply,
}
