"""
Corruptions of a turn, by name.

Each takes the turns of a dialogue so far and those of another dialogue. "The turn" is
the last one so far: the one to corrupt. Each returns the text to put in its place.

The judge learns from `TRAIN` kinds only. It never sees `HELD_OUT` kinds: the floors of
the demo and the check of the judge use them.
"""

import random
from collections.abc import Callable, Sequence

from parlai_ext.mini.smalltalk import DETAILS, TOPICS, GeneratedTurn, capitalized, pick

Turns = Sequence[GeneratedTurn]
Corruption = Callable[[random.Random, Turns, Turns], str]

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
    sorted({word for topic in TOPICS for item in topic.items for word in item.split()})
    + sorted(
        {w for detail in DETAILS.values() for v in detail.values for w in v.split()}
    )
)


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new).replace(capitalized(old), capitalized(new))


def off_topic(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return a turn from another dialogue.
    """
    return pick(rng, other_dialogue).text


def wrong_slot(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn with another item in the place of one that was mentioned before; if
    there is none, a turn from another dialogue.
    """
    before = ' '.join(turn.text.lower() for turn in turns[-3:-1])
    named = [
        slot
        for slot in turns[-1].slots
        if slot in ITEMS and slot in turns[-1].text and slot.lower() in before
    ]
    if not named:
        return off_topic(rng, turns, other_dialogue)
    old = pick(rng, named)
    return _replace(turns[-1].text, old, pick(rng, [x for x in ITEMS if x != old]))


def repeat_self(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return an earlier turn of the same speaker; if there is none, the turn stuttered.
    """
    own_earlier_turns = turns[-3::-2]
    return (
        pick(rng, own_earlier_turns).text
        if own_earlier_turns
        else stutter(rng, turns, other_dialogue)
    )


def echo(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn before, which is the other speaker's; if there is none, the turn
    stuttered.
    """
    return turns[-2].text if len(turns) > 1 else stutter(rng, turns, other_dialogue)


def stutter(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn with some words two or three times.
    """
    words = turns[-1].text.split()
    stuttered: list[str] = []
    for word in words:
        stuttered += [word] * (1 if rng.random() < 0.6 else 2 + int(rng.random() * 2))
    return ' '.join(stuttered + words[-1:])


def loop(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn with a few words over and over.
    """
    words = turns[-1].text.split()
    start = int(rng.random() * len(words))
    size = 1 + int(rng.random() * 3)
    piece = words[start : start + size]
    return ' '.join(words[:start] + piece * (3 + int(rng.random() * 4)))


def drop_words(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn without about half of its words.
    """
    words = turns[-1].text.split()
    kept = [word for word in words if rng.random() < 0.55]
    return ' '.join(
        kept if 0 < len(kept) < len(words) else words[1::2] or words[:1] * 2
    )


def random_words(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn with about half of its words replaced by random ones.
    """
    words = turns[-1].text.split()
    fixed = int(rng.random() * len(words))
    return ' '.join(
        pick(rng, WORDS) if i == fixed or rng.random() < 0.4 else word
        for i, word in enumerate(words)
    )


def mash(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the start of this turn, followed by the end of one from another dialogue.
    """
    left, right = turns[-1].text.split(), pick(rng, other_dialogue).text.split()
    cut = 1 + int(rng.random() * max(1, len(left) - 1))
    return ' '.join(left[:cut] + right[len(right) // 2 :])


def no_detail(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn with every item and detail replaced by something vague.
    """
    text = turns[-1].text
    for old in turns[-1].slots:
        text = _replace(text, old, pick(rng, ('something', 'some thing', 'stuff')))
    return text if text != turns[-1].text else off_topic(rng, turns, other_dialogue)


def word_salad(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return the turn's own words, shuffled.
    """
    words = turns[-1].text.split()
    for i in range(len(words) - 1, 0, -1):
        j = int(rng.random() * (i + 1))
        words[i], words[j] = words[j], words[i]
    return ' '.join(words)


def generic_reply(rng: random.Random, turns: Turns, other_dialogue: Turns) -> str:
    """
    Return a reply that fits everything and says nothing.
    """
    return pick(rng, GENERIC)


TRAIN: dict[str, Corruption] = {
    one.__name__: one
    for one in (
        off_topic,
        wrong_slot,
        repeat_self,
        echo,
        stutter,
        loop,
        drop_words,
        random_words,
        mash,
        no_detail,
    )
}
# kinds that can be seen in the turn itself; the judge learns these first
EASY = {
    kind: TRAIN[kind]
    for kind in ('stutter', 'loop', 'drop_words', 'random_words', 'no_detail')
}
HELD_OUT: dict[str, Corruption] = {
    one.__name__: one for one in (word_salad, generic_reply)
}
