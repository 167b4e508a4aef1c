"""
The world of `parlai self_chat -t ext:smalltalk`.
"""

from parlai_ext.worlds.self_chat import OpenersSelfChatWorld

SelfChatWorld = OpenersSelfChatWorld
