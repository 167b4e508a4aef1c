"""
Chat models that a scorer asks: any ``ext:hf`` or ``ext:remote`` system, one prompt at a
time or many together.
"""

from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import partial

from parlai_ext.core import System, SystemFailed, UserError, chunks, content_id
from parlai_ext.engines import Machine
from parlai_ext.models.questions import as_turns
from parlai_ext.models.watch import NO_WATCH
from parlai_ext.systems.chat.conversation import Conversation, ConversationAgent
from parlai_ext.systems.chat.messages import ChatReply
from parlai_ext.systems.identity import identity
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.spending import Spending, spending_of
from parlai_ext.systems.torch_memory import count_weights

Prompts = Sequence[str | Sequence[str]]  # messages, or turns of conversations


class AgentChat:
    """
    A chat system as a model: it replies to prompts and remembers nothing of them.

    :param kind, name: of the model that was asked for, for messages.
    :ivar num_parameters: how many weights the model has; `None` where it is not on this
        machine.
    :raises UserError: when the system cannot be loaded, or is no chat model.
    """

    def __init__(self, kind: str, name: str, system: System, machine: Machine):
        try:
            agent = load_system(system, machine).agent
            self.signature = f'system={identity(system)}'
        except SystemFailed as error:
            raise UserError(f'{kind} {name}: {error}') from error
        if not isinstance(agent, ConversationAgent):
            raise UserError(
                f'chat {system.name}: {type(agent).__name__} is no chat model'
            )
        self.agent = agent
        self.num_parameters = count_weights(agent.model)
        self.batchsize = machine.batchsize
        self.watch = NO_WATCH
        self.asks_anew = False  # even what is kept of an endpoint's earlier replies

    @property
    def usage(self) -> Spending | None:
        """
        What was asked of the model so far, as `spending_of` reads it; `None` where it
        does not count.
        """
        return spending_of(self.agent)

    def replies(self, prompts: Prompts) -> list[ChatReply]:
        """
        Return one reply to each prompt: a message, or the turns of a conversation, of
        which the last one is the user's.
        """
        return self._kept_replies(prompts, '', self.agent.chat_replies)

    def rating_replies(self, prompts: Prompts, logprobs: bool) -> list[ChatReply]:
        """
        Return one reply to each prompt that asks for a rating.

        :param logprobs: an endpoint shall tell the alternatives of each token.
        """
        anew = self.asks_anew
        return self._kept_replies(
            prompts,
            f'rating, logprobs: {logprobs}, anew: {anew}',
            lambda some: self.agent.rating_replies(some, logprobs, anew),
        )

    def _kept_replies(
        self,
        prompts: Prompts,
        manner: str,
        ask: Callable[[Sequence[Conversation]], list[ChatReply]],
    ) -> list[ChatReply]:
        """
        Return the replies that ``ask`` gets, a batch at a time; those that the watch
        has kept are not asked for.

        :param manner: what else than the prompts the replies depend on.
        """
        conversations = [
            as_turns([one] if isinstance(one, str) else one, last_is_mine=False)
            for one in prompts
        ]
        replies: list[ChatReply] = []
        for some in chunks(conversations, self.batchsize):
            texts = [[[turn.mine, turn.text] for turn in turns] for turns in some]
            replies += self.watch.results(
                content_id(self.signature, len(replies), texts, manner),
                partial(ask, some),
                lambda new: [list(astuple(reply)) for reply in new],
                lambda rows: [ChatReply(*fields) for fields in rows],
            )
            self.watch.tell(len(some), len(conversations))
        return replies
