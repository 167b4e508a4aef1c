"""
Agents whose words are an option of theirs: they say them, or raise them.
"""

from typing import Any, NoReturn

from parlai.agents.fixed_response.fixed_response import FixedResponseAgent


class Says(FixedResponseAgent):
    """
    Says its words.
    """


class Raises(FixedResponseAgent):
    """
    Raises its words in the place of a reply.
    """

    def act(self) -> NoReturn:
        raise RuntimeError(self.fixed_response)


class Fails(FixedResponseAgent):
    """
    Raises its words when it is made.
    """

    def __init__(self, opt: Any, shared: Any = None):
        super().__init__(opt, shared)
        raise RuntimeError(self.fixed_response)
