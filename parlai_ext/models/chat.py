"""
Chat models that a scorer asks: any ``ext:hf`` or ``ext:remote`` system, one prompt at a
time or many together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import System, content_id
from parlai_ext.core.watch import NO_WATCH
from parlai_ext.systems.chat.conversation import ConversationAgent, NoReply
from parlai_ext.systems.chat.messages import ChatTurn
from parlai_ext.systems.identity import identity
from parlai_ext.systems.parlai_agents import load_system


@dataclass(frozen=True)
class ChatReply:
    """
    A chat model's reply, or why there is none.
    """

    text: str | None
    reason: str | None = None


class AgentChat:
    """
    A chat system as a model: it replies to prompts and remembers nothing of them.
    """

    def __init__(self, system: System, machine: Machine):
        agent = load_system(
            system,
            datapath=machine.datapath,
            no_cuda=machine.no_cuda,
            fp16=machine.fp16,
        ).agent
        if not isinstance(agent, ConversationAgent):
            raise UserError(
                f'chat {system.name}: {type(agent).__name__} is no chat model'
            )
        self.agent = agent
        self.batchsize = machine.batchsize
        self.watch = NO_WATCH
        self.signature = f'system={identity(system, machine.datapath)}'

    @property
    def num_parameters(self) -> int | None:
        """
        How many weights the model has; `None` where it is not on this machine.
        """
        network = getattr(self.agent, 'model', None)
        if network is None or not hasattr(network, 'parameters'):
            return None
        return sum(weight.numel() for weight in network.parameters())

    def replies(self, prompts: Sequence[str | Sequence[str]]) -> list[ChatReply]:
        """
        Return one reply to each prompt: a message, or the turns of a conversation, of
        which the last one is the user's.
        """
        conversations = [_conversation(prompt) for prompt in prompts]
        replies: list[ChatReply] = []
        for start in range(0, len(conversations), self.batchsize):
            some = conversations[start : start + self.batchsize]
            texts = [[[turn.mine, turn.text] for turn in turns] for turns in some]
            key = content_id(self.signature, start, texts)
            kept = self.watch.get(key)
            if kept is None:
                kept = [_texts(reply) for reply in self.agent.replies(some)]
                self.watch.put(key, kept)
            replies += [ChatReply(*texts) for texts in kept]
            self.watch.tell(len(some), len(conversations))
        return replies


def _texts(reply: str | NoReply) -> list[str | None]:
    """
    Return the fields of a `ChatReply`.
    """
    return [None, reply.reason] if isinstance(reply, NoReply) else [reply, None]


def _conversation(prompt: str | Sequence[str]) -> tuple[ChatTurn, ...]:
    """
    Return a prompt as a conversation whose last turn is the other speaker's.
    """
    texts = [prompt] if isinstance(prompt, str) else list(prompt)
    mine = [(len(texts) - i) % 2 == 0 for i in range(len(texts))]
    return tuple(ChatTurn(*turn) for turn in zip(mine, texts, strict=True))
