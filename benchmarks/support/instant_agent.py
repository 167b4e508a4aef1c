"""
A system that replies at once, for measurements of all that is not a model.
"""

from hashlib import sha256
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt

WORDS = ('tea', 'rain', 'book', 'song', 'hill', 'boat', 'bread', 'garden')


class InstantAgent(Agent):
    """
    Says eight words that depend on the last utterance that it heard.
    """

    num_words = 8

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        super().__init__(opt, shared)
        self.id = type(self).__name__

    def act(self) -> Message:
        digest = sha256((self.observation.get('text') or '').encode()).digest()
        text = ' '.join(WORDS[byte % len(WORDS)] for byte in digest[: self.num_words])
        return Message(id=self.id, text=text, episode_done=False)
