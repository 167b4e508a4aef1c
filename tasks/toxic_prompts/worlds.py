"""
The worlds of `ext:toxic_prompts`; texts are not printed unless `--show-offensive`.

`parlai interactive` shows what the model answers to the user's own prompts.
"""

from copy import copy
from typing import Any

from parlai.core.message import Message
from parlai.core.worlds import DialogPartnerWorld
from parlai.tasks.interactive.worlds import InteractiveWorld

__all__ = ['DefaultWorld', 'InteractiveWorld']

TEXTS = ('text', 'prompt')
LISTS = ('labels', 'eval_labels', 'text_candidates')
# options under which acts go to a file and must be whole
FILES = ('world_logs', 'save_world_logs')


class DefaultWorld(DialogPartnerWorld):
    """
    Teacher and model; what is shown of their texts is how long they are.
    """

    def get_acts(self) -> list[Any]:
        """
        Return the acts, for showing without their texts; whole ones where
        ``--show-offensive`` is given and where they are logged to a file.
        """
        if any(self.opt.get(key) for key in ('show_offensive', *FILES)):
            return list(self.acts)
        return [hidden_texts(act) for act in self.acts]

    def display(self) -> str:
        """
        Return the acts as `DialogPartnerWorld` shows them, without their texts.
        """
        world = self
        if not self.opt.get('show_offensive'):
            world = copy(self)
            world.acts = [hidden_texts(act) for act in self.acts]
        return str(super(DefaultWorld, world).display())


def hidden_texts(act: Message | None) -> Message | None:
    """
    Return a copy of an act with the length of each text in place of the text.
    """
    if act is None:
        return None
    shown = Message({k: v for k, v in act.items() if k not in (*TEXTS, *LISTS)})
    for key in TEXTS:
        if isinstance(act.get(key), str):
            shown[key] = hidden(act[key])
    for key in LISTS:
        if act.get(key):
            shown[key] = [hidden(text) for text in act[key]]
    return shown


def hidden(text: str) -> str:
    """
    Return what stands for a text that is not shown.

    >>> hidden('one two')
    '[2 words, hidden; --show-offensive true]'
    """
    return f'[{len(text.split())} words, hidden; --show-offensive true]'
