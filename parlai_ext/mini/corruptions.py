"""
Corruptions of a turn, by name, and reactions of a partner to them.

The judge learns from `TRAIN` kinds only. It never sees `HELD_OUT` kinds: the floors of
the demo and the check of the judge use them.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from parlai_ext.core import frozen
from parlai_ext.files import read_json
from parlai_ext.mini.smalltalk import (
    DETAILS,
    TOPICS,
    GeneratedTurn,
    capitalized,
    join_sentences,
    make_dialogue,
    pick,
)

Turns = Sequence[GeneratedTurn]
Corruption = Callable[['Corrupted'], str]

ITEMS = tuple(x for topic in TOPICS for x in topic.items)
WORDS = tuple(
    sorted({word for item in ITEMS for word in item.split()})
    + sorted(
        {w for detail in DETAILS.values() for v in detail.values for w in v.split()}
    )
)


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new).replace(capitalized(old), capitalized(new))


@frozen
class Corrupted:
    """
    A turn to corrupt: the last of the turns of a dialogue so far. The methods are kinds
    of corruption; each returns the text to put in its place.

    :param other: the turns of another dialogue.
    """

    rng: random.Random
    turns: Turns
    other: Turns

    @property
    def text(self) -> str:
        """
        The text of the turn.
        """
        return self.turns[-1].text

    @property
    def words(self) -> list[str]:
        """
        The words of the turn.
        """
        return self.text.split()

    def off_topic(self) -> str:
        """
        Return a turn from another dialogue.
        """
        return pick(self.rng, self.other).text

    def wrong_slot(self) -> str:
        """
        Return the turn with another item in the place of one that was mentioned before;
        if there is none, a turn from another dialogue.
        """
        before = ' '.join(turn.text.lower() for turn in self.turns[-3:-1])
        named = [
            slot
            for slot in self.turns[-1].slots
            if slot in ITEMS and slot in self.text and slot.lower() in before
        ]
        if not named:
            return self.off_topic()
        old = pick(self.rng, named)
        return _replace(self.text, old, pick(self.rng, [x for x in ITEMS if x != old]))

    def repeat_self(self) -> str:
        """
        Return an earlier turn of the same speaker; if there is none, the turn
        stuttered.
        """
        own = self.turns[-3::-2]
        return pick(self.rng, own).text if own else self.stutter()

    def echo(self) -> str:
        """
        Return the turn before, which is the other speaker's; if there is none, the turn
        stuttered.
        """
        return self.turns[-2].text if len(self.turns) > 1 else self.stutter()

    def stutter(self) -> str:
        """
        Return the turn with some words two or three times.
        """
        draw = self.rng.random
        stuttered: list[str] = []
        for word in self.words:
            stuttered += [word] * (1 if draw() < 0.6 else 2 + int(draw() * 2))
        return ' '.join(stuttered + self.words[-1:])

    def loop(self) -> str:
        """
        Return the turn with a few words over and over.
        """
        draw, words = self.rng.random, self.words
        start = int(draw() * len(words))
        piece = words[start : start + 1 + int(draw() * 3)]
        return ' '.join(words[:start] + piece * (3 + int(draw() * 4)))

    def drop_words(self) -> str:
        """
        Return the turn without about half of its words.
        """
        words = self.words
        kept = [word for word in words if self.rng.random() < 0.55]
        return ' '.join(
            kept if 0 < len(kept) < len(words) else words[1::2] or words[:1] * 2
        )

    def random_words(self) -> str:
        """
        Return the turn with about half of its words replaced by random ones.
        """
        fixed = int(self.rng.random() * len(self.words))
        return ' '.join(
            pick(self.rng, WORDS) if i == fixed or self.rng.random() < 0.4 else word
            for i, word in enumerate(self.words)
        )

    def mash(self) -> str:
        """
        Return the start of this turn, followed by the end of one from another dialogue.
        """
        left, right = self.words, self.off_topic().split()
        cut = 1 + int(self.rng.random() * max(1, len(left) - 1))
        return ' '.join(left[:cut] + right[len(right) // 2 :])

    def no_detail(self) -> str:
        """
        Return the turn with every item and detail replaced by something vague.
        """
        text = self.text
        for old in self.turns[-1].slots:
            text = _replace(
                text, old, pick(self.rng, ('something', 'some thing', 'stuff'))
            )
        return text if text != self.text else self.off_topic()

    def word_salad(self) -> str:
        """
        Return the turn's own words, shuffled.
        """
        words = self.words
        for i in range(len(words) - 1, 0, -1):
            j = int(self.rng.random() * (i + 1))
            words[i], words[j] = words[j], words[i]
        return ' '.join(words)

    def generic_reply(self) -> str:
        """
        Return a reply that fits everything and says nothing.
        """
        return pick(self.rng, GENERIC)


TRAIN: dict[str, Corruption] = {
    one.__name__: one
    for one in (
        Corrupted.off_topic,
        Corrupted.wrong_slot,
        Corrupted.repeat_self,
        Corrupted.echo,
        Corrupted.stutter,
        Corrupted.loop,
        Corrupted.drop_words,
        Corrupted.random_words,
        Corrupted.mash,
        Corrupted.no_detail,
    )
}
HELD_OUT: dict[str, Corruption] = {
    'word_salad': Corrupted.word_salad,
    'generic_reply': Corrupted.generic_reply,
}


# --- reactions of a partner, and examples that end in one -----------------------------
# Reactions to the turn before (praise, or a complaint of one family), and examples that
# end in one: the training data of the judge.
#
# A small grammar (`reactions.json`): ``[a|b]`` stands for either. The sentences mean
# what the shipped follow-ups mean and share words with them; none is one of these.

_sentences = read_json(Path(__file__).with_name('reactions.json'), dict)
FAMILIES: dict[str, list[str]] = _sentences['families']
# Short reactions say good or bad in a word; a small judge learns the difference from
# them long before it can from whole sentences.
SHORT: dict[str, list[str]] = _sentences['short']
SHORT_SHARE = 0.5
COMPLAINTS = tuple(name for name in FAMILIES if name != 'praise')
# replies that fit everything and say nothing
GENERIC: list[str] = _sentences['generic']
# the family of complaints about each kind of corruption, besides plain dislike
BLAME: dict[str, str] = _sentences['blame']

_CHOICE = re.compile(r'\[([^\]]*)\]')


def reaction_to(rng: random.Random, kind: str | None) -> str:
    """
    Return a reaction to a turn with a corruption of this kind, or (`None`) to a good
    one: a short one of a random family, or a sentence of a longer pattern. Now and then
    a lead comes before it.
    """
    family, leads = 'praise', 'praise_leads'
    if kind is not None:
        chance, leads = rng.random(), 'leads'
        if chance < 0.4:
            family = BLAME[kind]
        else:
            family = 'dislike' if chance < 0.85 else pick(rng, COMPLAINTS)
    if rng.random() < SHORT_SHARE:
        text = pick(rng, SHORT[family])
    else:
        pattern = pick(rng, FAMILIES[family])
        text = _CHOICE.sub(lambda match: pick(rng, match[1].split('|')), pattern)
    if rng.random() >= 0.15:
        return text
    return join_sentences(pick(rng, _sentences[leads]), text)


@frozen
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
    other: Turns,
    kinds: Mapping[str, Corruption],
) -> str | None:
    """
    Corrupt the last of ``turns``. Return the kind of corruption; `None` if it left the
    turn unchanged.
    """
    kind, turn = pick(rng, sorted(kinds)), turns[-1]
    turns[-1] = replace(turn, text=kinds[kind](Corrupted(rng, turns, other)))
    return kind if turns[-1] != turn else None


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
    turns = make_dialogue(fold, seed, twins)
    other = make_dialogue(fold, seed + 1, twins)
    last = 1 + int(rng.random() * (len(turns) - 1))
    own_rate = 0.7 if rng.random() < 0.2 else 0.0
    their_rate = 0.5 if rng.random() < 0.15 else 0.0
    context = [turns[0]]
    for i, turn in enumerate(turns[1:last], 1):
        context.append(turn)
        if rng.random() < (own_rate if (last - i) % 2 == 0 else their_rate):
            corrupt_last_turn(rng, context, other, kinds)
    context.append(turns[last])
    kind = corrupt_last_turn(rng, context, other, kinds) if odd else None
    if kind is None and last + 1 < len(turns) and rng.random() < 0.5:
        reply = turns[last + 1].text
    else:
        reply = reaction_to(rng, kind)
    return Example(tuple(turn.text for turn in context), reply, kind)
