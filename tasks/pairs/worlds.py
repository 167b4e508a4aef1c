"""
The worlds of `parlai self_chat -t ext:pairs:SCHEME`, under the names that ParlAI looks
for.
"""

from parlai_ext.worlds.roster_worlds import AllPlayAllWorld as SelfChatAllPlayAllWorld
from parlai_ext.worlds.roster_worlds import BipartiteWorld as SelfChatBipartiteWorld
from parlai_ext.worlds.roster_worlds import RosterWorld as SelfChatWorld
from parlai_ext.worlds.roster_worlds import SelfPlayWorld as SelfChatSelfPlayWorld

__all__ = [
    'SelfChatAllPlayAllWorld',
    'SelfChatBipartiteWorld',
    'SelfChatSelfPlayWorld',
    'SelfChatWorld',
]
