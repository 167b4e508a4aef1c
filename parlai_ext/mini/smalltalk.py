"""
Small talk generated from a seed: two speakers ask, answer and respond to each other.

Each turn responds to what is pending (a question, a statement or a detail just given).
Each speaker's facts stay the same throughout a dialogue. Only `random.Random.random`
with string seeds is used, whose values Python guarantees, so the same seed gives the
same dialogues on every platform.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from parlai_ext.mini.topics import DETAILS, TOPICS, Topic

T = TypeVar('T')

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
class GeneratedTurn:
    """
    One generated utterance, and the slot values that it mentions.
    """

    text: str
    slots: tuple[str, ...] = ()


@dataclass(frozen=True)
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


@dataclass
class DialogueState:
    """
    An unfinished dialogue: its turns, the facts of each speaker, and used topics.
    """

    rng: random.Random
    turns: list[GeneratedTurn] = field(default_factory=list)
    facts: dict[tuple[int, str], str] = field(default_factory=dict)
    asked_details: set[tuple[str, str]] = field(default_factory=set)
    topics: list[str] = field(default_factory=list)
    topic_age: int = 0


# a new turn and what it leaves pending
Move = tuple[GeneratedTurn, Pending]
# the text of a piece of a turn, what it leaves pending, the slot values it mentions
Piece = tuple[str, Pending, tuple[str, ...]]


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


def fill_slots(frame: str, topic: Topic, item: str = '', detail: str = '') -> str:
    """
    Return the sentence of a frame: its slot ``x`` is the item, ``y`` the detail.
    """
    return frame.format(
        x=item,
        X=capitalized(item),
        y=detail,
        Y=capitalized(detail),
        yours=as_listener_says(detail),
        Yours=capitalized(as_listener_says(detail)),
        do=topic.do.format(x=item),
        doing=topic.doing.format(x=item),
    )


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


def _fact(state: DialogueState, speaker: int, topic: Topic, kind: str = '') -> str:
    """
    Return the speaker's own item of a topic or, given a kind of detail, that detail;
    it is drawn once in a dialogue.
    """
    key = (speaker, f'{topic.name}/{kind}')
    if key not in state.facts:
        values = DETAILS[kind].values if kind else topic.items
        state.facts[key] = pick(state.rng, values)
    return state.facts[key]


def _new_topic(state: DialogueState, speaker: int) -> Piece:
    """
    Begin an unused topic with a question, or with a statement of the speaker's own
    item. Return the text, what the other may react to, and the items named.
    """
    unused = [topic for topic in TOPICS if topic.name not in state.topics]
    topic = pick(state.rng, unused)
    state.topics.append(topic.name)
    state.topic_age = 0
    if state.rng.random() < 0.6:
        return pick(state.rng, topic.ask), Pending('ask', topic), ()
    item = _fact(state, speaker, topic)
    text = fill_slots(pick(state.rng, topic.tell), topic, item)
    return text, Pending('tell', topic, item), (item,)


def _probe(state: DialogueState, topic: Topic, item: str) -> Piece:
    """
    Ask for a detail of an item, one that was not asked for before if there is one.
    """
    kinds = [kind for kind in topic.probes if (item, kind) not in state.asked_details]
    kind = pick(state.rng, kinds or topic.probes)
    state.asked_details.add((item, kind))
    text = fill_slots(pick(state.rng, DETAILS[kind].ask), topic, item)
    return text, Pending('probe', topic, item, kind), (item,)


def _own_preference(state: DialogueState, speaker: int, topic: Topic) -> Piece:
    """
    Return a statement of the speaker's own item of a topic, not one that was named
    before.
    """
    named = {
        state.facts.get((0, f'{topic.name}/')),
        state.facts.get((1, f'{topic.name}/')),
    }
    others = [item for item in topic.items if item not in named]
    item = state.facts.setdefault((speaker, f'{topic.name}/'), pick(state.rng, others))
    text = fill_slots(pick(state.rng, OWN), topic, item)
    return text, Pending('tell', topic, item), (item,)


def _open_dialogue(state: DialogueState, speaker: int) -> Move:
    """
    Begin a dialogue with a topic, after a greeting or without.
    """
    text, pending, slots = _new_topic(state, speaker)
    if state.rng.random() < 0.6:
        text = join_sentences(pick(state.rng, GREETINGS), text)
    return GeneratedTurn(text, slots), pending


def _answer(state: DialogueState, speaker: int, last: Pending) -> Move:
    """
    Answer a question about a topic with the speaker's own item; sometimes ask it back.
    """
    rng, topic = state.rng, last.topic
    item = _fact(state, speaker, topic)
    text = fill_slots(
        pick(rng, topic.tell if rng.random() < 0.75 else SHORT), topic, item
    )
    if rng.random() < 0.4:
        text = join_sentences(pick(rng, LEADS), text)
    back = rng.random() < 0.3
    if back:
        text = join_sentences(text, pick(rng, BACK))
    return GeneratedTurn(text, (item,)), Pending('tell', topic, item, back=back)


def _take_up(state: DialogueState, speaker: int, last: Pending) -> Move:
    """
    React to a statement: with the speaker's own item or a question about the other's.
    """
    rng, topic, item = state.rng, last.topic, last.item
    if last.back or (
        rng.random() < 0.15 and (speaker, f'{topic.name}/') not in state.facts
    ):
        text, pending, slots = _own_preference(state, speaker, topic)
    else:
        text, pending, slots = _probe(state, topic, item)
    if rng.random() < 0.7:
        text = join_sentences(fill_slots(pick(rng, topic.comment), topic, item), text)
    return GeneratedTurn(text, (item,) + slots), pending


def _give_detail(state: DialogueState, speaker: int, last: Pending) -> Move:
    """
    Answer a question for a detail of one's item.
    """
    rng, topic, item, kind = state.rng, last.topic, last.item, last.kind
    detail = _fact(state, speaker, topic, kind)
    text = fill_slots(pick(rng, DETAILS[kind].answer), topic, item, detail)
    if rng.random() < 0.2:
        text = join_sentences(pick(rng, LEADS[1:3]), text)
    return GeneratedTurn(text, (item, detail)), Pending(
        'detail', topic, item, kind, detail
    )


def _remark(state: DialogueState, speaker: int, last: Pending) -> Move:
    """
    Remark on a detail that the other told; then change the topic, ask on, or add a
    preference.
    """
    rng, topic, item, kind, detail = (
        state.rng,
        last.topic,
        last.item,
        last.kind,
        last.detail,
    )
    remark = fill_slots(pick(rng, DETAILS[kind].remark), topic, item, detail)
    chance = rng.random()
    slots: tuple[str, ...] = ()
    if state.topic_age > 4 or chance < 0.2:
        text, pending, slots = _new_topic(state, speaker)
        text = join_sentences(remark, pick(rng, LINKS), text)
    elif chance < 0.6:
        question = fill_slots(pick(rng, DETAILS[kind].check), topic, item, detail)
        text, pending = (
            join_sentences(remark, question),
            Pending('check', topic, item, kind, detail),
        )
    elif chance < 0.85 or (speaker, f'{topic.name}/') in state.facts:
        question, pending, slots = _probe(state, topic, item)
        text = join_sentences(remark, question)
    else:
        preference, pending, slots = _own_preference(state, speaker, topic)
        text = join_sentences(remark, preference)
    return GeneratedTurn(text, (detail, as_listener_says(detail)) + slots), pending


def _confirm(state: DialogueState, speaker: int, last: Pending) -> Move:
    """
    Confirm a detail that the other asked about.
    """
    item, kind, detail = last.item, last.kind, last.detail
    text = fill_slots(pick(state.rng, DETAILS[kind].confirm), last.topic, item, detail)
    return GeneratedTurn(text, (item, detail)), Pending(
        'confirm', last.topic, item, kind, detail
    )


def _move_on(state: DialogueState, speaker: int, last: Pending) -> Move:
    """
    Go on after a detail was confirmed: with a new topic or with the speaker's own item.
    """
    rng, known = state.rng, (speaker, f'{last.topic.name}/') in state.facts
    if state.topic_age > 4 or known or rng.random() < 0.5:
        text, pending, slots = _new_topic(state, speaker)
        text = join_sentences(pick(rng, SEEN), pick(rng, LINKS), text)
    else:
        text, pending, slots = _own_preference(state, speaker, last.topic)
        text = join_sentences(pick(rng, SEEN), text)
    return GeneratedTurn(text, slots), pending


MOVES = {
    'ask': _answer,
    'tell': _take_up,
    'probe': _give_detail,
    'detail': _remark,
    'check': _confirm,
    'confirm': _move_on,
}


def make_dialogue(fold: str, seed: int, index: int) -> tuple[GeneratedTurn, ...]:
    """
    Return dialogue ``index`` of a fold; folds never share a seed.
    """
    if fold not in FOLDS:
        raise ValueError(f'unknown fold {fold!r}; known: {", ".join(FOLDS)}')
    state = DialogueState(random.Random(f'smalltalk/{fold}/{seed}/{index}'))
    length = SHORTEST + int(state.rng.random() * (LONGEST - SHORTEST + 1))
    turn, pending = _open_dialogue(state, 0)
    state.turns.append(turn)
    while len(state.turns) < length:
        state.topic_age += 1
        turn, pending = MOVES[pending.move](state, len(state.turns) % 2, pending)
        state.turns.append(turn)
    return tuple(state.turns)


def make_dialogues(fold: str, seed: int, count: int) -> list[tuple[GeneratedTurn, ...]]:
    """
    Return the first ``count`` dialogues of a fold.
    """
    return [make_dialogue(fold, seed, index) for index in range(count)]
