"""
The worlds of `parlai self_chat -t ext:pairs:SCHEME`, under the names that ParlAI looks
for.
"""

from parlai_ext.worlds.roster_worlds import (
    AllPlayAllWorld,
    BipartiteWorld,
    RosterWorld,
    SelfPlayWorld,
)

SelfChatWorld = RosterWorld
SelfChatAllPlayAllWorld = AllPlayAllWorld
SelfChatBipartiteWorld = BipartiteWorld
SelfChatSelfPlayWorld = SelfPlayWorld
