"""
A system whose replies take a while, so that a run can be disturbed in the middle.
"""

import time

from tests.support.trial_agents import Talker


class SlowTalker(Talker):
    """
    Says words that depend on what it heard, after 30 ms.
    """

    def batch_act(self, observations):
        time.sleep(0.03 * len(observations))
        return [self.reply(seen.get('text') or '') for seen in observations]

    @property
    def usage(self):
        return None
