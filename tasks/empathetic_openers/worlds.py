"""
The world of `parlai self_chat -t ext:empathetic_openers`.
"""

from parlai_ext.worlds.self_chat import OpenersSelfChatWorld

SelfChatWorld = OpenersSelfChatWorld
