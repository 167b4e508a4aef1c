"""
A floor without a model: `-m ext:mini_floor --floor-kind word_salad`.

Its replies depend on the utterances it observed in this dialogue alone, so neither the
order nor the size of batches changes them.
"""

import random
from dataclasses import dataclass
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt

from parlai_ext.core.options import DeclaresOptions, Flags, option
from parlai_ext.mini.corruptions import HELD_OUT, Corrupted
from parlai_ext.mini.smalltalk import make_dialogue, pick

POOL = 1_000_000  # dialogues of the test fold whose turns it corrupts


def corrupted_turn(kind: str, heard: list[str]) -> str:
    """
    Return a corrupted turn of unrelated small talk, which depends on ``heard`` alone.
    """
    rng = random.Random('\n'.join([kind, *heard]))
    turn = pick(rng, make_dialogue('test', 0, int(rng.random() * POOL)))
    return HELD_OUT[kind](Corrupted(rng, [turn], [turn]))


@dataclass(frozen=True)
class FloorOptions:
    """
    The kind of a floor.
    """

    floor_kind: str = option(
        'generic_reply',
        choices=sorted(HELD_OUT),
        help='how its turns are corrupted',
    )


class ListeningAgent(Agent):
    """
    Notes what it hears in an episode; subclasses define `reply`.
    """

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        super().__init__(opt, shared)
        self.heard: list[str] = []

    def reply(self) -> str:
        """
        Return what is said to what was heard.
        """
        raise NotImplementedError

    def observe(self, observation: Message) -> Message:
        if observation.get('text'):
            self.heard.append(observation['text'])
        return super().observe(observation)

    def act(self) -> Message:
        text = self.reply()
        if self.observation and self.observation.get('episode_done'):
            self.reset()
        return Message(id=self.id, text=text, episode_done=False)

    def reset(self) -> None:
        super().reset()
        self.heard = []


class MiniFloorAgent(DeclaresOptions, ListeningAgent):
    """
    Replies with something generic, or with a salad of words, whatever it observes.
    """

    declares = (Flags(FloorOptions, 'Floor'),)
    id = 'MiniFloor'

    def reply(self) -> str:
        """
        Return a corrupted turn.
        """
        return corrupted_turn(self.opt.get('floor_kind', 'generic_reply'), self.heard)
