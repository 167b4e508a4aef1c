"""
Honest degradations: a chat system made worse on purpose, in a way that is known.

A protocol whose systems differ in nothing but their degradations has an order that is
known before anybody talks. A degradation changes what the model is shown of the
conversation, or the words of its reply. It draws nothing at random: it is a function of
the conversation, so that neither the seed nor the batch changes it.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from parlai_ext.core.options import option, options_from_opt
from parlai_ext.files.openers_file import EVERYDAY, read_openers_file
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.chat.messages import ChatTurn

PREFIX = 'degrade'


@dataclass(frozen=True)
class Degradation:
    """
    The options that make a chat system worse on purpose.
    """

    last_turns: int | None = option(
        None, low=1, help='the model is shown only so many turns, the last ones'
    )
    context: str = option(
        'own',
        choices=('own', 'other'),
        help='other = the model is shown two utterances of an unrelated dialogue in '
        'place of the conversation, others at each turn',
    )
    shuffle: float = option(
        0.0, low=0, high=1, help='the share of the words of a reply that change places'
    )

    @classmethod
    def from_options(cls, opt: Mapping[str, Any]) -> Degradation:
        """
        Read the degradation from a system's options.

        :raises UserError: ``option: what is wrong``.
        """
        return options_from_opt(cls, opt, PREFIX)

    def shown_turns(self, turns: tuple[ChatTurn, ...]) -> tuple[ChatTurn, ...]:
        """
        Return what the model is shown of a conversation, whose last turn is the
        other's.
        """
        if self.context == 'other':
            turns = unrelated_turns(turns)
        return turns if self.last_turns is None else turns[-self.last_turns :]

    def said_text(self, reply: str, turns: tuple[ChatTurn, ...]) -> str:
        """
        Return what the system says in place of the model's reply.

        :param turns: the whole conversation before the reply.
        """
        if not self.shuffle:
            return reply
        return shuffled_words(reply, self.shuffle, random_numbers(turns, reply))


def random_numbers(turns: Sequence[ChatTurn], *more: str) -> random.Random:
    """
    Return random numbers that depend on the texts of a conversation alone.
    """
    return random.Random('\n'.join([*(turn.text for turn in turns), *more]))


def unrelated_turns(turns: tuple[ChatTurn, ...]) -> tuple[ChatTurn, ...]:
    """
    Return an opener that shares no utterance with the conversation, as a conversation
    that the system began.
    """
    said = {turn.text for turn in turns}
    openers = [opener for opener in other_contexts() if said.isdisjoint(opener)]
    mine, theirs = random_numbers(turns).choice(openers)
    return ChatTurn(True, mine), ChatTurn(False, theirs)


@cache
def other_contexts() -> tuple[tuple[str, ...], ...]:
    """
    Return the shipped openers, two utterances each.
    """
    return tuple(read_openers_file(EVERYDAY).openers.values())


def shuffled_words(text: str, share: float, rng: random.Random) -> str:
    """
    Return a text in which so many of its words change places with each other.

    One word cannot change places; of two or more none keeps its own, except where the
    same word comes there.

    >>> shuffled_words('tea is warm', 1, random.Random(0))
    'is warm tea'
    """
    words = text.split()
    places = rng.sample(range(len(words)), round(share * len(words)))
    moved = [words[place] for place in places[1:] + places[:1]]
    for place, word in zip(places, moved, strict=True):
        words[place] = word
    return ' '.join(words) if len(places) > 1 else text


def other_contexts_hash(opt: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the hash of the dialogues that a system is shown in place of its own; nothing
    where it is shown its own.
    """
    if Degradation.from_options(opt).context == 'own':
        return {}
    return {f'{PREFIX}_context': sha256(EVERYDAY)}
