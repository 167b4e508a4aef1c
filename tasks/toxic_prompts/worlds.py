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

# keys of texts and of lists of texts
TEXTS = ('text', 'prompt', 'labels', 'eval_labels', 'text_candidates')
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
    return Message({k: hidden(v) if k in TEXTS else v for k, v in act.items()})


def hidden(value: Any) -> Any:
    """
    Return what stands for a text, or for each of several texts, that is not shown.

    >>> hidden('one two')
    '[2 words, hidden; --show-offensive true]'
    """
    if isinstance(value, str):
        return f'[{len(value.split())} words, hidden; --show-offensive true]'
    return [hidden(text) for text in value or ()]
