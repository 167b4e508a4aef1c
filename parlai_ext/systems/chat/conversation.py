"""
A ParlAI agent for systems that are no ParlAI models: it keeps the turns of its
conversation, is asked for replies to many conversations at once, and may be degraded
honestly: made worse on purpose, in a way that is known.

A protocol whose systems differ in nothing but their degradations has an order that is
known before anybody talks. A degradation changes what the model is shown of the
conversation, or the words of its reply. It draws nothing at random: it is a function of
the conversation, so that neither the seed nor the batch changes it.
"""

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.opt import Opt

from parlai_ext.core import JsonObject, frozen, option, optional, options_from_opt
from parlai_ext.files import EVERYDAY, read_openers_file, sha256
from parlai_ext.systems.chat.messages import ChatReply, ChatTurn


@frozen
class Degradation:
    """
    The options that make a chat system worse on purpose.
    """

    title = 'Made worse on purpose'
    prefix = 'degrade'
    last_turns: int | None = optional(
        low=1, help='the model is shown only so many turns, the last ones'
    )
    context: str = option(
        'own',
        choices=('own', 'other'),
        help='other = the model is shown two utterances of an unrelated dialogue in '
        'place of the conversation, others at each turn',
    )
    shuffle: float = option(
        0.0, low=0, high=1, help='the share of the words of a reply that change places'
    )

    def shown_turns(self, turns: tuple[ChatTurn, ...]) -> tuple[ChatTurn, ...]:
        """
        Return what the model is shown of a conversation, whose last turn is the
        other's.
        """
        if self.context == 'other':
            # an opener that shares no utterance with the conversation, as a
            # conversation that the system began
            said = {turn.text for turn in turns}
            openers = [opener for opener in other_contexts() if said.isdisjoint(opener)]
            mine, theirs = random_numbers(turns).choice(openers)
            turns = ChatTurn(True, mine), ChatTurn(False, theirs)
        return turns if self.last_turns is None else turns[-self.last_turns :]


def random_numbers(turns: Sequence[ChatTurn], *more: str) -> random.Random:
    """
    Return random numbers that depend on the texts of a conversation alone.
    """
    return random.Random('\n'.join([*(turn.text for turn in turns), *more]))


@cache
def other_contexts() -> tuple[tuple[str, ...], ...]:
    """
    Return the shipped openers, two utterances each.
    """
    return tuple(read_openers_file(EVERYDAY).openers.values())


def moved_words(text: str, share: float, rng: random.Random) -> str:
    """
    Return a text in which so many of its words change places with each other.

    One word cannot change places; of two or more none keeps its own, except where the
    same word comes there.

    >>> moved_words('tea is warm', 1, random.Random(0))
    'is warm tea'
    """
    words = text.split()
    places = rng.sample(range(len(words)), round(share * len(words)))
    moved = [words[place] for place in places[1:] + places[:1]]
    for place, word in zip(places, moved, strict=True):
        words[place] = word
    return ' '.join(words) if len(places) > 1 else text


def other_contexts_hash(opt: JsonObject) -> dict[str, str]:
    """
    Return the hash of the dialogues that a system is shown in place of its own; nothing
    where it is shown its own.
    """
    if options_from_opt(Degradation, opt).context == 'own':
        return {}
    return {f'{Degradation.prefix}_context': sha256(EVERYDAY)}


Conversation = tuple[ChatTurn, ...]


class ConversationAgent(Agent):
    """
    Subclasses define `load_engine`, or `replies` where they need no engine; the turns
    are stored here, and what degrades the system on purpose happens here.

    :ivar engine: what replies, the same for all clones, of which each has turns of its
        own. Its `usage` is what it counts, its `model` its network, where it has such.
    """

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        self.engine: Any = shared['engine'] if shared else self.load_engine(opt)
        # where a player looks for weights
        self.model = getattr(self.engine, 'model', None)
        super().__init__(opt, shared)
        self.over: bool
        self.reset()
        self.degradation = options_from_opt(Degradation, opt)

    def load_engine(self, opt: Opt) -> Any:
        """
        Return the engine of a system with these options; `None` where it needs none.

        :raises UserError: ``option: what is wrong``.
        """
        return None

    def share(self) -> dict[str, object]:
        """
        Return what clones share.
        """
        return {**super().share(), 'engine': self.engine}

    @property
    def usage(self) -> Any:
        """
        What was asked of the engine so far, by all clones together; `None` where it
        does not count.
        """
        return getattr(self.engine, 'usage', None)

    def replies(
        self, conversations: Sequence[Conversation]
    ) -> Sequence[str | ChatReply]:
        """
        Return one reply to each conversation, whose last turn is the other's; its text
        will do.

        :raises UserError: ``option: what is wrong`` when the system cannot go on.
        """
        return self.engine.replies(conversations)

    def chat_replies(self, conversations: Sequence[Conversation]) -> list[ChatReply]:
        """
        Return what `replies` does, a text as a reply.
        """
        return [
            ChatReply(one) if isinstance(one, str) else one
            for one in self.replies(conversations)
        ]

    def rating_replies(
        self, conversations: Sequence[Conversation], logprobs: bool, anew: bool = False
    ) -> list[ChatReply]:
        """
        Return the replies of a model that is asked for ratings, not for conversation.

        :param logprobs: tell the alternatives of each token, if the system can.
        :param anew: ask, even where an earlier reply is kept.
        :raises UserError: as `replies` does.
        """
        return self.chat_replies(conversations)

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
        shown = list(map(self.degradation.shown_turns, conversations))
        replies = self.chat_replies(shown)
        acts = []
        for reply, turns in zip(replies, conversations, strict=True):
            text, share = reply.text, self.degradation.shuffle
            if text is not None and share:
                text = moved_words(text, share, random_numbers(turns, text))
            act = Message(id=self.id, text=text, episode_done=False)
            if text is None:
                act['reason'] = reply.reason
            acts.append(act)
        return acts

    def reset(self) -> None:
        """
        Forget the conversation.
        """
        super().reset()
        self.turns: list[ChatTurn] = []
        self.over = False
        self.observation = Message(turns=())
