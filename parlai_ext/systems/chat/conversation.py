"""
A ParlAI agent for systems that are no ParlAI models: it keeps the turns of its
conversation and is asked for replies to many conversations at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt

from parlai_ext.systems.chat.degradation import Degradation
from parlai_ext.systems.chat.messages import ChatTurn

Conversation = tuple[ChatTurn, ...]


@dataclass(frozen=True)
class ChatReply:
    """
    A chat model's reply, or why there is none.

    :param alternatives: for each token of the text, the tokens that might have stood
        there as ``[token, log-probability]``, the one that does stand there first;
        `None` where they are not known.
    """

    text: str | None
    reason: str | None = None
    alternatives: list[list[list[Any]]] | None = None


class ConversationAgent(Agent):
    """
    Subclasses define `replies`; the turns are stored here, and what degrades the system
    on purpose happens here.

    A clone (`share`) has turns of its own and shares what `share` hands over.
    """

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        super().__init__(opt, shared)
        self.turns: list[ChatTurn] = []
        self.over = False
        self.degradation = Degradation.from_options(opt)

    def replies(self, conversations: Sequence[Conversation]) -> list[ChatReply]:
        """
        Return one reply to each conversation, whose last turn is the other's.

        :raises UserError: ``option: what is wrong`` when the system cannot go on.
        """
        raise NotImplementedError

    def rating_replies(
        self, conversations: Sequence[Conversation], logprobs: bool, anew: bool = False
    ) -> list[ChatReply]:
        """
        Return the replies of a model that is asked for ratings, not for conversation.

        :param logprobs: tell the alternatives of each token, if the system can.
        :param anew: ask, even where an earlier reply is kept.
        :raises UserError: as `replies` does.
        """
        return self.replies(conversations)

    def observe(self, observation: Message) -> Message:
        """
        Add a turn; the returned message holds the whole conversation in ``turns``.
        """
        if self.over:
            self.reset()
        if observation.get('text'):
            self.turns.append(ChatTurn(False, observation['text']))
        self.over = bool(observation.get('episode_done'))
        self.observation = Message({**observation, 'turns': tuple(self.turns)})
        return self.observation

    def self_observe(self, act: Message) -> None:
        """
        Add the agent's own utterance to the conversation.
        """
        if act.get('text'):
            self.turns.append(ChatTurn(True, act['text']))

    def act(self) -> Message:
        """
        Reply to the last observation.
        """
        [reply] = self.batch_act([self.observation])
        self.self_observe(reply)
        return reply

    def batch_act(self, observations: Sequence[Message]) -> list[Message]:
        """
        Reply to many conversations at once. Where there is no reply, the message has a
        ``reason`` that says why.
        """
        conversations = [seen['turns'] for seen in observations]
        replies = self.replies(list(map(self.degradation.shown_turns, conversations)))
        acts = []
        for reply, turns in zip(replies, conversations, strict=True):
            act = Message(id=self.id, text=None, episode_done=False)
            if reply.text is None:
                act['reason'] = reply.reason
            else:
                act.force_set('text', self.degradation.said_text(reply.text, turns))
            acts.append(act)
        return acts

    def reset(self) -> None:
        """
        Forget the conversation.
        """
        super().reset()
        self.turns, self.over = [], False
