"""
A system that can take part in many dialogues at once.

A `Player` owns the one agent that holds the weights; a `Participant` is its clone in
one dialogue, with a history of its own. What a participant observes follows ParlAI's
self-chat world (tasks/self_chat/worlds.py:146), so that a dialogue is the same there.
"""

import contextlib
import functools
import io
import pickle
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch
from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.metrics import Metrics
from parlai.core.opt import Opt
from parlai.core.torch_agent import TorchAgent

from parlai_ext.core import (
    DATA_ERRORS,
    JsonObject,
    UserError,
    bytes_hash,
    errors_of_system,
    frozen,
    logger,
    message_of,
    printable,
    without_half_characters,
)
from parlai_ext.systems.families import FIRED, family_of, rows_of_own_dialogue
from parlai_ext.systems.torch_memory import is_out_of_memory
from parlai_ext.view import VisibleOutput

LONGEST_REASON = 200
# characters; more is no utterance, and every later stage would read it several times
LONGEST_REPLY = 1_000_000
# fields of a reply that its own agent may read when it observes it
KEPT_FIELDS = ('id', 'text', 'episode_done', 'safety')
# what does not decide what an agent says next
NO_STATE = (torch.nn.Module, ModuleType, Metrics, Opt)
BLANK, EMPTY = 'blank reply', 'empty reply'


@frozen
class Reply:
    """
    A system's utterance, or the reason why there is none.

    :param deflected: what a safety layer answered to in the system's place.
    :param act: the agent's message that it was read from.
    """

    text: str | None
    reason: str | None = None
    deflected: str | None = None
    act: Any = field(default=None, repr=False, compare=False)


@dataclass(eq=False, repr=False)
class Participant:
    """
    One system in one dialogue.
    """

    agent: Agent
    observation: Any = None

    def hear(self, text: str, speaker: str) -> None:
        """
        Observe an utterance of the other speaker.
        """
        self._observe(Message(id=speaker, text=text, episode_done=False))

    def take_as_own(self, text: str) -> None:
        """
        Observe a given utterance, such as an opener's, as this system's own.
        """
        if hasattr(self.agent, 'self_observe'):
            self._observe(Message(episode_done=False))
            self.say(Message(id=self.agent.id, text=text, episode_done=False))

    def say(self, act: Message) -> None:
        """
        Observe this system's own utterance, where the agent can.
        """
        if hasattr(self.agent, 'self_observe'):
            with agents_code():
                self.agent.self_observe(act)

    def _observe(self, act: Message) -> None:
        """
        Let the agent observe an act, and keep the observation that it will reply to.
        """
        with agents_code():
            returned = self.agent.observe(act)
        agents_own = self.agent.observation
        torchlike = isinstance(self.agent, TorchAgent) or returned is None
        self.observation = agents_own if torchlike else returned


@dataclass(eq=False, repr=False)
class Player:
    """
    A loaded system.

    """

    name: str
    agent: Agent
    widest: int | None = None  # the batch that memory held, once it ran out

    @functools.cached_property
    def batches(self) -> bool:
        """
        True if `batch_act` over clones does what each clone's `act` would do.

        An agent with an `act` of its own may do there what `batch_act` leaves out.
        """
        if isinstance(self.agent, TorchAgent):
            return type(self.agent).act is TorchAgent.act
        return hasattr(self.agent, 'batch_act')

    @functools.cached_property
    def n_bytes(self) -> int:
        """
        The memory that its weights take.
        """
        values = list(vars(self.agent).values())
        for module in [value for value in values if isinstance(value, torch.nn.Module)]:
            values += [*module.parameters(), *module.buffers()]
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    def join(self) -> Participant:
        """
        Return a participant of a new dialogue, which shares the weights.
        """
        with agents_code():
            return Participant(self.agent.clone())

    def respond(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Return a reply of every participant, which observes it as its own.

        :raises SystemFailed: when the system cannot go on at all.
        """
        return self.observed(participants, self.propose(participants))

    def observed(
        self, participants: Sequence[Participant], replies: Sequence[Reply]
    ) -> list[Reply]:
        """
        Let every participant observe its reply, and return the replies.

        :raises SystemFailed: when the system cannot go on at all.
        """
        with errors_of_system(self.name):
            return list(map(self._observed, participants, replies))

    def propose(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Return what every participant would say: in one batch where the agent can.

        A participant has not said it before `Participant.say`; but one whose agent has
        no batches observes its own reply when it makes it.

        When memory runs out, the batch is halved, now and from now on. When a batch
        raises something else, its participants reply one by one, so that only the
        dialogue that made it raise comes to an end.

        :raises SystemFailed: when the system cannot go on at all.
        """
        with errors_of_system(self.name), agents_code():
            return self._propose(participants)

    @functools.cached_property
    def longest_reply(self) -> int | None:
        """
        The most tokens of a reply, as the agent's options say; `None`: no such limit.
        """
        most = getattr(self.agent, 'opt', {}).get('reply_max_tokens')
        most = most or getattr(self.agent, 'label_truncate', None)
        return most if isinstance(most, int) else None

    def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """
        Return how many tokens each text has, `None` where the agent cannot tell.
        """
        dictionary = getattr(self.agent, 'dict', None)
        return dictionary and [len(dictionary.txt2vec(text)) for text in texts]

    def states(self, participants: Sequence[Participant]) -> list[str]:
        """
        Return hashes of all that each clone has of its own, and not in common with the
        agent that it was cloned from, such as weights.

        :raises Exception: when something of it cannot be compared, such as an open
            file.
        """
        with agents_code():
            return [_clone_state(self.agent, one.agent) for one in participants]

    def _propose(self, participants: Sequence[Participant]) -> list[Reply]:
        number = len(participants)
        if self.batches and 1 < number <= (self.widest or number):
            try:
                return list(map(read_reply, self._batch_act(participants)))
            except BaseException as error:
                raise_unless_of_agent(error)
                reason = in_words(error)
                if is_out_of_memory(error):
                    self.widest = (number + 1) // 2
                    logger.warning(
                        '%s: a batch of %d %s; going on with %d at most',
                        self.name,
                        number,
                        reason,
                        self.widest,
                    )
                else:
                    logger.warning('%s: a batch %s; going on singly', self.name, reason)
        # outside of the handler, where the error no longer holds its tensors
        if number > (self.widest or number):
            halves = participants[: number // 2], participants[number // 2 :]
            return [reply for half in halves for reply in self._propose(half)]
        return [self._reply_alone(participant) for participant in participants]

    def _batch_act(self, participants: Sequence[Participant]) -> list[Any]:
        """
        Return the acts of these participants from one call of `batch_act`.
        """
        clones = [participant.agent for participant in participants]
        with rows_of_own_dialogue(self.agent, clones):
            acts = self.agent.batch_act(
                [participant.observation for participant in participants]
            )
        if not isinstance(acts, list | tuple) or len(acts) != len(participants):
            raise TypeError(f'batch_act did not return {len(participants)} replies')
        return list(acts)

    def _reply_alone(self, participant: Participant) -> Reply:
        """
        Return the reply of one participant; an error of the agent ends its dialogue,
        one of the machine or the endpoint stops the system.
        """
        try:
            act = (
                self._batch_act([participant])[0]
                if self.batches
                else participant.agent.act()
            )
        except BaseException as error:
            raise_unless_of_agent(error)
            opt = getattr(self.agent, 'opt', {})
            raise_out_of_memory(error, opt, 'with one dialogue at a time')
            return Reply(None, in_words(error))
        return read_reply(act)

    def _observed(self, participant: Participant, reply: Reply) -> Reply:
        """
        Let the participant observe its reply, and return it.
        """
        if reply.reason is None and self.batches:
            act = reply.act
            if reply.text != act['text']:
                act = Message({**act, 'text': reply.text})
            try:
                participant.say(act)
            except BaseException as error:
                raise_unless_of_agent(error)
                return Reply(None, in_words(error))
        return replace(reply, act=None)


def _clone_state(agent: Agent, clone: Agent) -> str:
    common = {id(value) for value in vars(agent).values()}

    class Pickler(pickle.Pickler):
        # what it returns is pickled and never called
        def reducer_override(self, value: Any) -> Any:
            if id(value) in common or isinstance(value, NO_STATE):
                return int, (id(value),)
            if isinstance(value, torch.Tensor):  # torch's own way is slow
                return float, (value.dtype, value.tolist())
            return NotImplemented

    own = {k: value for k, value in vars(clone).items() if id(value) not in common}
    out = io.BytesIO()
    Pickler(out, pickle.HIGHEST_PROTOCOL).dump(own)
    return bytes_hash(out.getvalue())


def reply_fields(reply: Reply) -> JsonObject:
    """
    Return a reply as plain data, with what its agent may want to observe.
    """
    told = {'text': reply.text, 'reason': reply.reason, 'safety': reply.deflected}
    return {**_kept_fields(reply.act or {}), **told}


def reply_from_fields(fields: JsonObject) -> Reply:
    """
    Return the reply that `reply_fields` has made plain data of.

    :raises Exception: for other data.
    """
    reply, reason = read_reply(fields), fields['reason']
    if reply.text is None:
        return Reply(None, printable(str(reason or reply.reason)))
    return replace(reply, act=Message(_kept_fields(fields)))


def _kept_fields(act: JsonObject) -> JsonObject:
    return {k: act[k] for k in KEPT_FIELDS if isinstance(act.get(k), str | bool)}


def read_reply(act: Any) -> Reply:
    """
    Return the text of an agent's act, or the reason why there is none.
    """
    if act is None:
        return Reply(None, 'no reply (None)')
    try:
        text = act['text']
    except DATA_ERRORS:
        return Reply(None, 'reply without a text')
    if text is None:
        return Reply(None, act.get('reason') or 'the text of the reply is None')
    if not isinstance(text, str):
        return Reply(None, f'the text of the reply is {type(text).__name__}, not str')
    if len(text) > LONGEST_REPLY:
        return Reply(None, f'{len(text):,} characters; at most {LONGEST_REPLY:,}')
    if not text.strip():
        return Reply(None, BLANK if text else EMPTY)
    return Reply(without_half_characters(text), deflected=fired_check(act), act=act)


def fired_check(act: Any) -> str | None:
    """
    Return what a safety layer answered to in its system's place, ``prompt`` or
    ``answer``, by the field ``safety`` of its message; `None`: to nothing.
    """
    check = act.get('safety')
    return str(check) if check in FIRED else None


class AgentRaised(Exception):
    """
    What an agent in another process has raised, in words.
    """


def in_words(error: BaseException) -> str:
    """
    Return an exception as one line without memory addresses: the same in every run.
    """
    if isinstance(error, AgentRaised):
        return str(error)
    words = printable(' '.join(message_of(error).split()))
    words = re.sub(r'\b0x[0-9a-fA-F]+', '0x…', words)
    return f'raised {type(error).__name__}: {words}'.rstrip(': ')[:LONGEST_REASON]


# --- what an agent's own code may do to the program: print and raise ----------------


@contextlib.contextmanager
def agents_code() -> Iterator[None]:
    """
    Run code of an agent: it prints to standard error only, so that standard output
    holds results, and changes nothing of a terminal.
    """
    if isinstance(sys.stderr, VisibleOutput) or sys.stderr is None:
        yield
        return
    shown = VisibleOutput(sys.stderr, progress=True)
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
        yield


def raise_out_of_memory(error: BaseException, opt: JsonObject, when: str) -> None:
    """
    Raise the line about a system for which this machine's memory is too small, if that
    is what an exception means.

    :param opt: its options.
    """
    if is_out_of_memory(error):
        option = family_of(opt).weights_option(opt)
        raise UserError(
            f'{option}: out of memory {when}; it needs a larger machine'
        ) from error


def raise_unless_of_agent(error: BaseException) -> None:
    """
    Raise an exception again if it is not an agent's own but for the user, or that of a
    signal.

    Our handlers of signals raise a class of their own; so where one of them is set, or
    Ctrl-C is ignored as in a background job, a plain `KeyboardInterrupt` can only be an
    agent's.
    """
    if isinstance(error, UserError):
        raise error
    if isinstance(error, KeyboardInterrupt):
        handler = signal.getsignal(signal.SIGINT)
        is_pythons = handler in (signal.default_int_handler, signal.SIG_DFL, None)
        if type(error) is not KeyboardInterrupt or is_pythons:
            raise error
