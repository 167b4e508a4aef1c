"""
Small talk from a seed: two speakers who ask, answer and take up what the other said.

A dialogue is a walk over what is pending between the speakers (a question, a statement,
a detail just given). Each speaker keeps to the facts he gave before. Only
`random.Random.random` with string seeds is used, whose values Python guarantees, so the
same seed gives the same dialogues on every platform.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from parlai_ext.mini.topics import DETAILS, Topic
from parlai_ext.mini.topics_home import HOME
from parlai_ext.mini.topics_outside import OUTSIDE

T = TypeVar('T')

TOPICS: tuple[Topic, ...] = HOME + OUTSIDE
FOLDS = ('train', 'valid', 'test')
SHORTEST, LONGEST = 6, 12

GREETINGS = ('Hi!', 'Hello!', 'Hey, how are you?', 'Good morning!', 'Nice to meet you.')
LEADS = ('Sure.', 'Well,', 'Oh,', 'Good question.', 'Yes,', 'Let me think.')
SHORT = ('{X}.', '{X}, of course.', 'For me it is {x}.', 'I would say {x}.')
BACK = ('What about you?', 'And you?', 'How about you?', 'And what about you?')
OWN = (
    'I prefer {x} myself.',
    'For me it would be {x}.',
    'I would choose {x}.',
    'As for me, I {do}.',
    'I {do}, you know.',
)
SEEN = ('I see.', 'Good to hear.', 'That makes sense.', 'Interesting.', 'How nice.')
LINKS = (
    'By the way,',
    'On another note,',
    'Anyway,',
    'Now tell me something else.',
    'Let us change the topic.',
    'May I ask you something?',
)


@dataclass(frozen=True)
class Turn:
    """
    One utterance, and the slot values that it mentions.
    """

    text: str
    slots: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pending:
    """
    What the next speaker has to take up.

    `move` is one of ask, tell, probe, detail, check, confirm; `back` says that the
    question was returned.
    """

    move: str
    topic: Topic
    x: str = ''
    kind: str = ''
    y: str = ''
    back: bool = False


@dataclass
class Talk:
    """
    A dialogue in the making: what was said, known, and is pending.
    """

    rng: random.Random
    turns: list[Turn] = field(default_factory=list)
    facts: dict[tuple[int, str], str] = field(default_factory=dict)
    asked: set[tuple[str, str]] = field(default_factory=set)
    topics: list[str] = field(default_factory=list)
    topic_age: int = 0


def pick(rng: random.Random, items: Sequence[T]) -> T:
    """
    Return one of ``items``, drawn by the one method that every version keeps.
    """
    return items[int(rng.random() * len(items))]


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def yours(value: str) -> str:
    """
    Return a detail as its listener says it: my sister, your sister.
    """
    swap = {'my': 'your', 'me': 'you'}
    return ' '.join(swap.get(word, word) for word in value.split(' '))


def render(frame: str, topic: Topic, x: str = '', y: str = '') -> str:
    """
    Return ``frame`` with its slots filled.
    """
    text = frame.format(
        x=x,
        X=capital(x),
        y=y,
        Y=capital(y),
        yours=yours(y),
        Yours=capital(yours(y)),
        do=topic.do.format(x=x),
        doing=topic.doing.format(x=x),
    )
    return text


def join(*sentences: str) -> str:
    """
    Return the sentences as one utterance; after a comma the next one starts small.
    """
    text = ''
    for sentence in sentences:
        keep = sentence.startswith(('I ', "I'")) or not text.endswith(',')
        text += ' ' if text else ''
        text += sentence if keep else sentence[:1].lower() + sentence[1:]
    return text


def _value(talk: Talk, speaker: int, topic: Topic, kind: str = '') -> str:
    key = (speaker, f'{topic.name}/{kind}')
    if key not in talk.facts:
        values = DETAILS[kind].values if kind else topic.items
        talk.facts[key] = pick(talk.rng, values)
    return talk.facts[key]


def _new_topic(talk: Talk, speaker: int) -> tuple[str, Pending, tuple[str, ...]]:
    fresh = [topic for topic in TOPICS if topic.name not in talk.topics]
    topic = pick(talk.rng, fresh)
    talk.topics.append(topic.name)
    talk.topic_age = 0
    if talk.rng.random() < 0.6:
        return pick(talk.rng, topic.ask), Pending('ask', topic), ()
    x = _value(talk, speaker, topic)
    text = render(pick(talk.rng, topic.tell), topic, x)
    return text, Pending('tell', topic, x), (x,)


def _probe(talk: Talk, topic: Topic, x: str) -> tuple[str, Pending, tuple[str, ...]]:
    kinds = [kind for kind in topic.probes if (x, kind) not in talk.asked]
    kind = pick(talk.rng, kinds or topic.probes)
    talk.asked.add((x, kind))
    text = render(pick(talk.rng, DETAILS[kind].ask), topic, x)
    return text, Pending('probe', topic, x, kind), (x,)


def _own(
    talk: Talk, speaker: int, topic: Topic
) -> tuple[str, Pending, tuple[str, ...]]:
    heard = {
        talk.facts.get((0, f'{topic.name}/')),
        talk.facts.get((1, f'{topic.name}/')),
    }
    others = [x for x in topic.items if x not in heard]
    x = talk.facts.setdefault((speaker, f'{topic.name}/'), pick(talk.rng, others))
    text = render(pick(talk.rng, OWN), topic, x)
    return text, Pending('tell', topic, x), (x,)


def _open(talk: Talk, speaker: int) -> tuple[Turn, Pending]:
    text, pending, slots = _new_topic(talk, speaker)
    if talk.rng.random() < 0.6:
        text = join(pick(talk.rng, GREETINGS), text)
    return Turn(text, slots), pending


def _answer(talk: Talk, speaker: int, asked: Pending) -> tuple[Turn, Pending]:
    rng, topic = talk.rng, asked.topic
    x = _value(talk, speaker, topic)
    text = render(pick(rng, topic.tell if rng.random() < 0.75 else SHORT), topic, x)
    if rng.random() < 0.4:
        text = join(pick(rng, LEADS), text)
    back = rng.random() < 0.3
    if back:
        text = join(text, pick(rng, BACK))
    return Turn(text, (x,)), Pending('tell', topic, x, back=back)


def _take_up(talk: Talk, speaker: int, told: Pending) -> tuple[Turn, Pending]:
    rng, topic, x = talk.rng, told.topic, told.x
    if told.back or (
        rng.random() < 0.15 and (speaker, f'{topic.name}/') not in talk.facts
    ):
        text, pending, slots = _own(talk, speaker, topic)
    else:
        text, pending, slots = _probe(talk, topic, x)
    if rng.random() < 0.7:
        text = join(render(pick(rng, topic.comment), topic, x), text)
    return Turn(text, (x,) + slots), pending


def _give_detail(talk: Talk, speaker: int, asked: Pending) -> tuple[Turn, Pending]:
    rng, topic, x, kind = talk.rng, asked.topic, asked.x, asked.kind
    y = _value(talk, speaker, topic, kind)
    text = render(pick(rng, DETAILS[kind].answer), topic, x, y)
    if rng.random() < 0.2:
        text = join(pick(rng, LEADS[1:3]), text)
    return Turn(text, (x, y)), Pending('detail', topic, x, kind, y)


def _remark(talk: Talk, speaker: int, given: Pending) -> tuple[Turn, Pending]:
    rng, topic, x, kind, y = talk.rng, given.topic, given.x, given.kind, given.y
    said = render(pick(rng, DETAILS[kind].remark), topic, x, y)
    chance = rng.random()
    slots: tuple[str, ...] = ()
    if talk.topic_age > 4 or chance < 0.2:
        text, pending, slots = _new_topic(talk, speaker)
        text = join(said, pick(rng, LINKS), text)
    elif chance < 0.6:
        question = render(pick(rng, DETAILS[kind].check), topic, x, y)
        text, pending = join(said, question), Pending('check', topic, x, kind, y)
    elif chance < 0.85 or (speaker, f'{topic.name}/') in talk.facts:
        question, pending, slots = _probe(talk, topic, x)
        text = join(said, question)
    else:
        own, pending, slots = _own(talk, speaker, topic)
        text = join(said, own)
    return Turn(text, (y, yours(y)) + slots), pending


def _confirm(talk: Talk, speaker: int, asked: Pending) -> tuple[Turn, Pending]:
    x, kind, y = asked.x, asked.kind, asked.y
    text = render(pick(talk.rng, DETAILS[kind].confirm), asked.topic, x, y)
    return Turn(text, (x, y)), Pending('confirm', asked.topic, x, kind, y)


def _move_on(talk: Talk, speaker: int, told: Pending) -> tuple[Turn, Pending]:
    rng, known = talk.rng, (speaker, f'{told.topic.name}/') in talk.facts
    if talk.topic_age > 4 or known or rng.random() < 0.5:
        text, pending, slots = _new_topic(talk, speaker)
        text = join(pick(rng, SEEN), pick(rng, LINKS), text)
    else:
        text, pending, slots = _own(talk, speaker, told.topic)
        text = join(pick(rng, SEEN), text)
    return Turn(text, slots), pending


MOVES = {
    'ask': _answer,
    'tell': _take_up,
    'probe': _give_detail,
    'detail': _remark,
    'check': _confirm,
    'confirm': _move_on,
}


def dialogue(fold: str, seed: int, index: int) -> tuple[Turn, ...]:
    """
    Return dialogue ``index`` of a fold; folds never share a seed.
    """
    if fold not in FOLDS:
        raise ValueError(f'unknown fold {fold!r}; known: {", ".join(FOLDS)}')
    talk = Talk(random.Random(f'smalltalk/{fold}/{seed}/{index}'))
    length = SHORTEST + int(talk.rng.random() * (LONGEST - SHORTEST + 1))
    turn, pending = _open(talk, 0)
    talk.turns.append(turn)
    while len(talk.turns) < length:
        talk.topic_age += 1
        turn, pending = MOVES[pending.move](talk, len(talk.turns) % 2, pending)
        talk.turns.append(turn)
    return tuple(talk.turns)


def dialogues(fold: str, seed: int, count: int) -> list[tuple[Turn, ...]]:
    """
    Return the first ``count`` dialogues of a fold.
    """
    return [dialogue(fold, seed, index) for index in range(count)]
