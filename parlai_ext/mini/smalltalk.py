"""
Small talk generated from a seed: two speakers ask, answer and respond to each other;
and the same with spoilt turns, and what a partner says of them.

Each turn responds to what is pending (a question, a statement or a detail just given).
Each speaker's facts stay the same throughout a dialogue. Only `random.Random.random`
with string seeds is used, whose values Python guarantees, so the same seed gives the
same dialogues on every platform.

A topic (`topics.json`) is something that a speaker likes or does (``{x}``, one of its
items), with verb phrases about it; the other speaker may ask for a detail (when, who,
where, how long, why). No sentence has to agree with ``{x}``, so any item fits any
sentence.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from parlai_ext.core import frozen
from parlai_ext.core.records import record_from_json
from parlai_ext.files import read_json

T = TypeVar('T')

SHORTEST, LONGEST = 6, 12


@frozen
class Topic:
    """
    One topic: its items, and the sentences that ask, tell and comment about them.
    """

    name: str
    items: tuple[str, ...]
    ask: tuple[str, ...]
    tell: tuple[str, ...]
    comment: tuple[str, ...]
    do: str
    doing: str
    probes: tuple[str, ...]


@frozen
class Detail:
    """
    One kind of detail ``{y}``: how it is asked for, given and taken up.

    ``check`` are questions that refer to the value just given, ``confirm`` their
    answers. ``{yours}`` is the value as the listener says it (my sister, your sister).
    """

    values: tuple[str, ...]
    ask: tuple[str, ...]
    answer: tuple[str, ...]
    remark: tuple[str, ...]
    check: tuple[str, ...]
    confirm: tuple[str, ...]


@frozen
class _Lists:
    phrases: Mapping[str, tuple[str, ...]]
    details: Mapping[str, Detail]
    topics: tuple[Topic, ...]


_lists = record_from_json(
    _Lists, read_json(Path(__file__).with_name('topics.json'), dict)
)
DETAILS, TOPICS, PHRASES = _lists.details, _lists.topics, _lists.phrases


@frozen
class GeneratedTurn:
    """
    One generated utterance, and the slot values that it mentions.
    """

    text: str
    slots: tuple[str, ...] = ()


@frozen
class Pending:
    """
    The part of a turn that the next speaker has to respond to.

    `move` is one of ask, tell, probe, detail, check, confirm; `back` is true if the
    speaker also returned the question.
    """

    move: str
    topic: Topic
    item: str = ''
    kind: str = ''
    detail: str = ''
    back: bool = False


# the text of a turn, the slot values it mentions, and what it leaves pending
Move = tuple[str, tuple[str, ...], Pending]


def pick(rng: random.Random, items: Sequence[T]) -> T:
    """
    Return one of ``items`` at random; `random.random` is stable over Python versions.
    """
    return items[int(rng.random() * len(items))]


def capitalized(text: str) -> str:
    """
    Return a text with its first letter capital.
    """
    return text[:1].upper() + text[1:]


def as_listener_says(value: str) -> str:
    """
    Return a detail as the listener would say it: my sister, your sister.
    """
    swap = {'my': 'your', 'me': 'you'}
    return ' '.join(swap.get(word, word) for word in value.split(' '))


def join_sentences(*sentences: str) -> str:
    """
    Return the sentences as one utterance; after a comma the next one starts with a
    small letter.
    """
    text = ''
    for sentence in sentences:
        keep = sentence.startswith(('I ', "I'")) or not text.endswith(',')
        text += ' ' if text else ''
        text += sentence if keep else sentence[:1].lower() + sentence[1:]
    return text


class _Talk:
    """
    An unfinished dialogue: the facts of each speaker, and what was talked about.

    Each move of `MOVES` responds to what is pending. It returns the new turn's text,
    the slot values that it mentions, and what it leaves pending.
    """

    def __init__(self, rng: random.Random):
        self.rng = rng
        self.speaker = 0  # whose turn it is
        self.last = Pending('', TOPICS[0])
        self.facts: dict[tuple[int, str], str] = {}
        self.asked_details: set[tuple[str, str]] = set()
        self.topics: list[str] = []
        self.topic_age = 0

    def phrase(self, kind: str) -> str:
        return pick(self.rng, PHRASES[kind])

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def say(self, frames: Sequence[str], about: Pending | None = None) -> str:
        """
        Return the sentence of one of some frames: its slot ``x`` is the item, ``y`` the
        detail.
        """
        one = about or self.last
        slots = {'x': one.item, 'y': one.detail, 'yours': as_listener_says(one.detail)}
        capital = {name.capitalize(): capitalized(slots[name]) for name in slots}
        return pick(self.rng, frames).format(
            **slots,
            **capital,
            do=one.topic.do.format(x=one.item),
            doing=one.topic.doing.format(x=one.item),
        )

    def fact(self, topic: Topic, kind: str = '') -> str:
        """
        Return the speaker's own item of a topic or, given a kind of detail, that
        detail; it is drawn once in a dialogue.
        """
        key = (self.speaker, f'{topic.name}/{kind}')
        if key not in self.facts:
            self.facts[key] = pick(
                self.rng, DETAILS[kind].values if kind else topic.items
            )
        return self.facts[key]

    @property
    def has_own_item(self) -> bool:
        """
        True if the speaker's own item of the pending topic was drawn.
        """
        return (self.speaker, f'{self.last.topic.name}/') in self.facts

    def new_topic(self) -> Move:
        """
        Begin an unused topic with a question, or with a statement of the speaker's own
        item.
        """
        topic = pick(self.rng, [one for one in TOPICS if one.name not in self.topics])
        self.topics.append(topic.name)
        self.topic_age = 0
        if self.chance(0.6):
            return pick(self.rng, topic.ask), (), Pending('ask', topic)
        told = Pending('tell', topic, self.fact(topic))
        return self.say(topic.tell, told), (told.item,), told

    def probe(self) -> Move:
        """
        Ask for a detail of an item, one that was not asked for before if there is one.
        """
        topic, item = self.last.topic, self.last.item
        kinds = [
            kind for kind in topic.probes if (item, kind) not in self.asked_details
        ]
        kind = pick(self.rng, kinds or topic.probes)
        self.asked_details.add((item, kind))
        return self.say(DETAILS[kind].ask), (item,), Pending('probe', topic, item, kind)

    def own_preference(self) -> Move:
        """
        Return a statement of the speaker's own item of a topic, not one that was named
        before.
        """
        topic = self.last.topic
        key = f'{topic.name}/'
        named = {self.facts.get((speaker, key)) for speaker in (0, 1)}
        drawn = pick(self.rng, [item for item in topic.items if item not in named])
        item = self.facts.setdefault((self.speaker, key), drawn)
        told = Pending('tell', topic, item)
        return self.say(PHRASES['own'], told), (item,), told

    def open(self) -> Move:
        """
        Begin a dialogue with a topic, after a greeting or without.
        """
        text, slots, pending = self.new_topic()
        if self.chance(0.6):
            text = join_sentences(self.phrase('greetings'), text)
        return text, slots, pending

    def answer(self) -> Move:
        """
        Answer a question about a topic with the speaker's own item; sometimes ask it
        back.
        """
        topic = self.last.topic
        told = Pending('tell', topic, self.fact(topic))
        text = self.say(topic.tell if self.chance(0.75) else PHRASES['short'], told)
        if self.chance(0.4):
            text = join_sentences(self.phrase('leads'), text)
        if self.chance(0.3):
            text = join_sentences(text, self.phrase('back'))
            told = replace(told, back=True)
        return text, (told.item,), told

    def take_up(self) -> Move:
        """
        React to a statement: with the speaker's own item or a question about the
        other's.
        """
        last = self.last
        own = last.back or (self.chance(0.15) and not self.has_own_item)
        text, slots, pending = self.own_preference() if own else self.probe()
        if self.chance(0.7):
            text = join_sentences(self.say(last.topic.comment), text)
        return text, (last.item, *slots), pending

    def give_detail(self) -> Move:
        """
        Answer a question for a detail of one's item.
        """
        detail = self.fact(self.last.topic, self.last.kind)
        given = replace(self.last, move='detail', detail=detail)
        text = self.say(DETAILS[given.kind].answer, given)
        if self.chance(0.2):
            text = join_sentences(self.phrase('hesitations'), text)
        return text, (given.item, detail), given

    def remark(self) -> Move:
        """
        Remark on a detail that the other told; then change the topic, ask on, or add a
        preference.
        """
        last, kind = self.last, DETAILS[self.last.kind]
        parts = [self.say(kind.remark)]
        chance = self.rng.random()
        slots: tuple[str, ...] = ()
        if self.topic_age > 4 or chance < 0.2:
            text, slots, pending = self.new_topic()
            parts.append(self.phrase('links'))
        elif chance < 0.6:
            text, pending = self.say(kind.check), replace(last, move='check')
        elif chance < 0.85 or self.has_own_item:
            text, slots, pending = self.probe()
        else:
            text, slots, pending = self.own_preference()
        slots = (last.detail, as_listener_says(last.detail), *slots)
        return join_sentences(*parts, text), slots, pending

    def confirm(self) -> Move:
        """
        Confirm a detail that the other asked about.
        """
        last = self.last
        text = self.say(DETAILS[last.kind].confirm)
        return text, (last.item, last.detail), replace(last, move='confirm')

    def move_on(self) -> Move:
        """
        Go on after a detail was confirmed: with a new topic or with the speaker's own
        item.
        """
        if self.topic_age > 4 or self.has_own_item or self.chance(0.5):
            text, slots, pending = self.new_topic()
            text = join_sentences(self.phrase('seen'), self.phrase('links'), text)
            return text, slots, pending
        text, slots, pending = self.own_preference()
        return join_sentences(self.phrase('seen'), text), slots, pending


MOVES = {
    '': _Talk.open,
    'ask': _Talk.answer,
    'tell': _Talk.take_up,
    'probe': _Talk.give_detail,
    'detail': _Talk.remark,
    'check': _Talk.confirm,
    'confirm': _Talk.move_on,
}


@lru_cache(maxsize=4096)  # several plans in one process open with the same ones
def make_dialogue(fold: str, seed: int, index: int) -> tuple[GeneratedTurn, ...]:
    """
    Return dialogue ``index`` of a fold, one of `FOLDS`, which never share a seed.
    """
    talk = _Talk(random.Random(f'smalltalk/{fold}/{seed}/{index}'))
    length = SHORTEST + int(talk.rng.random() * (LONGEST - SHORTEST + 1))
    turns: list[GeneratedTurn] = []
    while len(turns) < length:
        talk.speaker = len(turns) % 2
        talk.topic_age += bool(turns)
        text, slots, talk.last = MOVES[talk.last.move](talk)
        turns.append(GeneratedTurn(text, slots))
    return tuple(turns)


# --- corruptions of a turn, by name ---------------------------------------------------
# The judge learns from `TRAIN` kinds only. It never sees `HELD_OUT` kinds: the floors
# of the demo and the check of the judge use them.

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
