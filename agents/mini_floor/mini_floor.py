"""
A floor without a model: `-m ext:mini_floor --floor-kind word_salad`.

Its replies depend on the utterances it observed in this dialogue alone, so neither the
order nor the size of batches changes them.
"""

import random
from collections.abc import Sequence

from parlai_ext.core import DeclaresOptions, frozen, option
from parlai_ext.mini.smalltalk import HELD_OUT, Corrupted, make_dialogue, pick
from parlai_ext.systems.chat.conversation import Conversation, ConversationAgent

POOL = 1_000_000  # dialogues of the test fold whose turns it corrupts


@frozen
class FloorOptions:
    """
    The kind of a floor.
    """

    title = 'Floor'
    floor_kind: str = option(
        'generic_reply',
        choices=sorted(HELD_OUT),
        help='how its turns are corrupted',
    )


class MiniFloorAgent(DeclaresOptions, ConversationAgent):
    """
    Replies with something generic, or with a salad of words, whatever it observes.
    """

    declares = (FloorOptions,)
    id = 'MiniFloor'

    def replies(self, conversations: Sequence[Conversation]) -> list[str]:
        """
        Return a corrupted turn of unrelated small talk for each conversation, which
        depends on what was heard alone.
        """
        kind = self.opt.get('floor_kind', 'generic_reply')
        replies = []
        for turns in conversations:
            heard = [turn.text for turn in turns if not turn.mine]
            rng = random.Random('\n'.join([kind, *heard]))
            turn = pick(rng, make_dialogue('test', 0, int(rng.random() * POOL)))
            replies.append(HELD_OUT[kind](Corrupted(rng, [turn], [turn])))
        return replies
