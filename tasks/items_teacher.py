"""
A ParlAI teacher of a list of items, each of which is an episode of its own.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.teachers import FixedDialogTeacher

from parlai_ext.core.options import DeclaresOptions


class ItemsTeacher(DeclaresOptions, FixedDialogTeacher):
    """
    Subclasses define `read` and `get`.

    :cvar shared: what the clones of a batch read together: attributes that `read` sets.
    :cvar hidden: keys of a message that the model does not see.
    """

    shared: ClassVar[tuple[str, ...]] = ('items',)
    hidden: ClassVar[tuple[str, ...]] = ()
    items: Sequence[Any]

    def __init__(self, opt: Opt, shared: dict[str, Any] | None = None):
        super().__init__(opt, shared)
        if shared:
            for name in self.shared:
                setattr(self, name, shared[name])
        else:
            self.read(opt)
        self.reset()

    def read(self, opt: Opt) -> None:
        """
        Read the items, and what else is shared.
        """
        raise NotImplementedError

    def share(self) -> dict[str, Any]:
        """
        Return what a clone needs.
        """
        return super().share() | {name: getattr(self, name) for name in self.shared}

    def num_episodes(self) -> int:
        """
        Return the number of items.
        """
        return len(self.items)

    def num_examples(self) -> int:
        """
        Return the number of items.
        """
        return len(self.items)

    def process_action(self, action: Message) -> Message:
        """
        Take away what the model does not see.
        """
        action = super().process_action(action).copy()
        for key in self.hidden:
            action.pop(key, None)
        return action
