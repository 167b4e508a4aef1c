"""
The world of `parlai self_chat -t ext:smalltalk`.
"""

from parlai_ext.worlds.self_chat import OpenersSelfChatWorld


class SelfChatWorld(OpenersSelfChatWorld):
    """
    Small talk openers.
    """

    opener_task = 'ext:smalltalk'
