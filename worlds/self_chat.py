"""
ParlAI's own self-chat over our openers: `parlai self_chat -t ext:smalltalk -mf …`.
"""

from typing import Any

from parlai.tasks.self_chat.worlds import SelfChatWorld

from parlai_ext.core import Opener
from parlai_ext.store import sample_openers
from parlai_ext.systems.task_data import load_openers


class OpenersSelfChatWorld(SelfChatWorld):
    """
    Both first utterances are given, and nothing is said before them.

    Openers are those that `parlai evaluate_systems` draws with the same seed, in the
    same order: the first self-chat has the run's first opener.
    """

    def init_openers(self) -> None:
        """
        Draw the openers, one for each self-chat, without replacement.
        """
        # the split of --datatype if it was given; ParlAI's own default is train
        given: dict[str, Any] = self.opt.get('override') or {}
        openers = load_openers(
            self.opt['task'],
            self.opt.get('openers_file'),
            split=str(given.get('datatype', 'test')).split(':')[0],
        )
        n, seed = self.opt.get('num_self_chats', 1), self.opt.get('seed', 0)
        self._openers: list[Opener] = sample_openers(openers, n, seed)

    def get_openers(self, episode_num: int) -> list[str]:
        """
        Return the given utterances of this self-chat.
        """
        return list(self._openers[episode_num].utterances)

    def get_contexts(self) -> None:
        """
        Say nothing before the opener.
        """
