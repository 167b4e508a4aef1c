"""
Systems whose files or code nobody here vouches for are loaded and talk in a process of
their own: it has no keys, no network and limits, and what it says is text.

The dialogues are those that the system would give in this process: the state of the
random numbers goes there with a request and comes back with its answer. One process
holds the systems that share their weights. It is killed when it exceeds its time, when
nobody needs it any more, and with this process.
"""

import contextlib
import functools
import io
import itertools
import logging
import os
import socket
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any

import torch
from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.utils import logging as parlai_logging

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core.errors import SystemFailed, UserError, printable
from parlai_ext.core.nouns import System
from parlai_ext.engines.machine import Machine, use_data_folder
from parlai_ext.isolation.fork_server import ForkedTask, Worker, answer_requests
from parlai_ext.isolation.policy import require_named
from parlai_ext.systems.downloads import download_systems
from parlai_ext.systems.families import family_of
from parlai_ext.systems.family import Family
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.systems.model_cache import free_memory
from parlai_ext.systems.parlai_agents import (
    check_options,
    has_strange_code,
    is_trusted,
    load_system,
    parsed_options,
)
from parlai_ext.systems.players import (
    AgentRaised,
    Participant,
    Player,
    Reply,
    in_words,
    kept_fields,
    raise_unless_of_agent,
    read_reply,
)
from parlai_ext.systems.random_numbers import random_state, set_random_state
from parlai_ext.systems.safe.load import guarded
from parlai_ext.systems.safe.model_options import named_servers
from parlai_ext.systems.spending import spending_of
from parlai_ext.systems.torch_memory import is_out_of_memory
from parlai_ext.view.text import VisibleOutput

logger = logging.getLogger(__name__)

WORKER = f'{__name__}:serve_players'
SLOW_IMPORT = 'parlai.agents.transformer.transformer'  # most agents are made of it
SECONDS_TO_LOAD = 600  # at least
SHARE_OF_MEMORY = 0.9  # of what is free when a process begins
LONGEST_OUTPUT = 100_000  # characters that are shown of what code prints at a time
# what an answer of another form makes this side raise
NO_ANSWER = (LookupError, ValueError, TypeError, AttributeError, RuntimeError)
REFUSALS = 'PermissionError', 'gaierror'  # what code meets that asks for more
OWN_PROCESS = (
    'is not trusted, so that it plays without network and writes no files; '
    '--trust-model-code FILE trusts the file of its model or its agent'
)


def load_on(machine: Machine, system: System) -> Player:
    """
    Load a system where and as the machine says: in a process of its own unless it is
    trusted.

    :raises UserError: as `load_system` does.
    """
    require_named(system)
    options: dict[str, Any] = {'no_cuda': machine.no_cuda, 'fp16': machine.fp16}
    try:
        if is_trusted(system):
            return load_system(system, **options)
        return _load_apart(system, options, machine.reply_timeout)
    except UserError as error:
        raise SystemFailed(system.name, str(error)) from error.__cause__


def _load_apart(
    system: System, options: Mapping[str, Any], patience: float | None
) -> Player:
    for download in download_systems([system]):
        if download.reason:
            raise UserError(download.reason)
    family = family_of(system.opt)
    key = os.getpid(), family.weights_key(system.opt)
    process = _living.get(key)
    if process is None or process.worker.ended:
        process = PlayerProcess(system)
    if key[1] is not None:
        _living[key] = process
    given = [system.name, dict(system.opt), options]
    facts = process.ask('load', given, patience and max(patience, SECONDS_TO_LOAD))
    with _answers_of_a_kind():
        if facts['missing']:
            _warn_of_missing(', '.join(map(str, facts['missing'])))
        return DistantPlayer(system.name, process, family, facts, patience)


@contextlib.contextmanager
def _answers_of_a_kind() -> Iterator[None]:
    """
    Refuse an answer that no process of ours gives.
    """
    try:
        yield
    except (*NO_ANSWER, AgentRaised) as error:
        raise UserError(f'its process gives no answer: {in_words(error)}') from None


@functools.cache
def _warn_of_missing(limits: str) -> None:
    """
    Say once what this machine does not enforce.
    """
    logger.warning('systems that are not trusted: not enforced here: %s', limits)


def check_options_apart(system: System, given: Mapping[str, Any] | None = None) -> None:
    """
    Check a system's options, in a process of its own where code of others would run.

    :param given: these options alone.
    :raises UserError: naming the option that cannot be meant.
    """
    if has_strange_code(system):
        given = given and dict(given)
        PlayerProcess(system).ask('check', [system.name, dict(system.opt), given], None)
    else:
        _check_options(system, given)


def _check_options(system: System, given: Mapping[str, Any] | None) -> None:
    """
    Check a system's options, or these of them, in this process.
    """
    with guarded(roster_opt=system.opt):
        if given is None:
            check_options(system)
        else:
            parsed_options(system, given)


class PlayerProcess:
    """
    This side of a process in which systems play.

    :ivar gone: numbers of participants whose dialogues are over.
    """

    def __init__(self, system: System):
        self.name = system.name
        self.gone: list[int] = []
        self.usage: Any = None
        self._warned = False
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self._random: dict[str, Any] | None = None
        servers = named_servers(system.opt)
        given = {
            'place': os.getcwd(),
            'modules': sys.path,
            'datapath': data_folder(),
            'n_threads': torch.get_num_threads(),
            'addresses': {host: _addresses(host) for host, _ in servers},
        }
        memory = int(free_memory() * SHARE_OF_MEMORY)
        ports = tuple({port for _, port in servers if port})
        self.worker = Worker(
            ForkedTask(
                WORKER, given, memory, self._folder.name, None, ports, (SLOW_IMPORT,)
            )
        )

    def ask(self, do: str, given: Sequence[Any], patience: float | None) -> Any:
        """
        Return what a method of `PlayersHere` returns.

        :param patience: seconds until the process is killed; `None`: any.
        :raises UserError: when the system cannot go on.
        :raises AgentRaised: when the system's code raises.
        """
        state = random_state()
        gone, self.gone[:] = list(self.gone), []
        request = {'do': do, 'given': given, 'gone': gone, 'random': state}
        if state == self._random:
            del request['random']
        try:
            answer = self.worker.ask(request, patience)
        except UserError as error:
            hint = '--reply-timeout SECONDS gives it more'
            problem = f'{error}; {hint}' if 'within' in str(error) else str(error)
            raise UserError(problem) from None
        with _answers_of_a_kind():
            self._random = answer['random'] or state
            if answer['random']:
                set_random_state(answer['random'])
            self.usage = answer['usage']
            sum(value or 0 for value in (self.usage or {}).values())  # they are numbers
            for level, text in answer['said']:
                _show(int(level), str(text))
            (kind, words), value = answer['problem'], answer['value']
        self.warn_if_refused(str(words))
        if kind == 'raised':
            raise AgentRaised(str(words))
        if kind:
            raise UserError(str(words)) from MemoryError() if kind == 'memory' else None
        return value

    def warn_if_refused(self, words: str) -> None:
        """
        Say once why the system's code may not do something, if an error says so.
        """
        if not self._warned and any(kind in words for kind in REFUSALS):
            self._warned = True
            logger.warning('system %r %s', self.name, OWN_PROCESS)


# processes that more systems may be loaded in, by this process and their weights
_living: weakref.WeakValueDictionary[tuple[int, Hashable], PlayerProcess]
_living = weakref.WeakValueDictionary()


def _addresses(host: str) -> list[str]:
    """
    Return the addresses of a host, which its process could not ask for.
    """
    with contextlib.suppress(OSError):
        return sorted({str(one[4][0]) for one in socket.getaddrinfo(host, None)})
    return []


def _show(level: int, text: str) -> None:
    """
    Show what the process has logged, or printed (level 0).
    """
    if level:
        logger.log(level, '%s', printable(text))
    elif sys.stderr is not None:
        VisibleOutput(sys.stderr, progress=True).write(text)


@dataclass(eq=False, repr=False)
class DistantParticipant(Participant):
    """
    A system of another process in one dialogue.

    :param ask: asks the process something about this participant.
    :param number: what the process calls it.
    """

    ask: Callable[..., Any] = field(kw_only=True)
    number: int = field(kw_only=True)

    def hear(self, text: str, speaker: str) -> None:
        """
        Observe an utterance of the other speaker.
        """
        self.ask('tell', self.number, 'hear', text, speaker)

    def take_as_own(self, text: str) -> None:
        """
        Observe a given utterance, such as an opener's, as this system's own.
        """
        self.ask('tell', self.number, 'take_as_own', text)


class DistantPlayer(Player):
    """
    A system that is loaded in another process.
    """

    numbers = itertools.count()

    def __init__(
        self,
        name: str,
        process: PlayerProcess,
        family: Family,
        facts: Mapping[str, Any],
        patience: float | None,
    ):
        super().__init__(name, _StandIn(process), family)
        self.process, self.patience = process, patience
        self.batches, self._n_bytes = bool(facts['batches']), int(facts['n_bytes'])
        most = facts['longest_reply']
        self._longest_reply = None if most is None else int(most)
        if facts['uses_gpu']:
            torch.cuda.init()  # so that its random numbers are seeded here

    @property
    def n_bytes(self) -> int:
        """
        The memory that its weights take.
        """
        return self._n_bytes

    @property
    def longest_reply(self) -> int | None:
        """
        The most tokens of a reply.
        """
        return self._longest_reply

    def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """
        Return how many tokens each text has, `None` where the agent cannot tell.
        """
        with _answers_of_a_kind():
            counts = self._ask('count_tokens', list(texts))
            return None if counts is None else list(map(int, counts))

    def join(self) -> Participant:
        """
        Return a participant of a new dialogue, which shares the weights.
        """
        number = next(self.numbers)
        self._ask('join', number)
        one = DistantParticipant(self.agent, ask=self._ask, number=number)
        weakref.finalize(one, self.process.gone.append, number)
        return one

    def respond(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Return a reply of every participant, which observes it as its own.
        """
        return self._replies('respond', participants)

    def propose(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Return what every participant would say.
        """
        return self._replies('propose', participants)

    def observed(
        self, participants: Sequence[Participant], replies: Sequence[Reply]
    ) -> list[Reply]:
        """
        Let every participant observe its reply, and return the replies.
        """
        given = [reply_fields(reply) for reply in replies]
        return self._replies('observed', participants, given)

    def states(self, participants: Sequence[Participant]) -> list[str]:
        """
        Return hashes of the states of the clones.
        """
        with _answers_of_a_kind():
            return list(map(str, self._ask('states', _numbers(participants))))

    def _ask(self, do: str, *given: Any) -> Any:
        return self.process.ask(do, [self.name, *given], self.patience)

    def _replies(
        self, do: str, participants: Sequence[Participant], *given: Any
    ) -> list[Reply]:
        """
        Return what the process says for these participants.

        :raises SystemFailed: when the system cannot go on at all.
        """
        with self._failing_by_name(), _answers_of_a_kind():
            told = self._ask('let_speak', do, _numbers(participants), *given)
            replies = [_reply(fields) for fields in told]
            if len(replies) != len(participants):
                raise TypeError(f'{len(replies)} replies of {len(participants)}')
        for reply in replies:
            self.process.warn_if_refused(reply.reason or '')
        return replies


def _numbers(participants: Sequence[Participant]) -> list[int]:
    return [one.number for one in participants if isinstance(one, DistantParticipant)]


def reply_fields(reply: Reply) -> dict[str, Any]:
    """
    Return a reply as plain data.
    """
    fields = kept_fields(reply.act) or {}
    return fields | {
        'text': reply.text,
        'reason': reply.reason,
        'safety': reply.deflected,
    }


def _reply(fields: Mapping[str, Any]) -> Reply:
    """
    Return a reply from plain data.
    """
    reply = read_reply(fields)
    reason = reply.reason and printable(str(reply.reason))
    act = None if reply.text is None else _act(fields)
    return Reply(reply.text, reason, reply.deflected, act)


def _act(fields: Mapping[str, Any]) -> Message:
    return Message(kept_fields(fields) or {})


class _StandIn(Agent):
    """
    Stands for an agent of another process: it knows what that has used.
    """

    def __init__(self, process: PlayerProcess):
        super().__init__({})
        self.engine = process  # which counts for all systems in it

    @property
    def usage(self) -> Any:
        """
        What the agent has counted.
        """
        return self.engine.usage


# ---- in the other process


class PlayersHere:
    """
    The systems of this process, by name, and their participants, by number.
    """

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = missing
        self.players: dict[str, Player] = {}
        self.participants: dict[int, Participant] = {}
        self.acts: dict[int, Any] = {}
        self.random = random_state()

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the answer to a request, with the random numbers as they are then.
        """
        answer: dict[str, Any] = {'value': None, 'problem': [None, None]}
        for number in request['gone']:
            self.participants.pop(number, None)
        if 'random' in request:
            self.random = request['random']
            set_random_state(self.random)
        with _what_is_said() as said:
            try:
                answer['value'] = getattr(self, request['do'])(*request['given'])
            except UserError as error:
                kind = 'memory' if is_out_of_memory(error.__cause__) else 'error'
                answer['problem'] = [kind, str(error)]
            except BaseException as error:
                raise_unless_of_agent(error)
                answer['problem'] = ['raised', in_words(error)]
            answer['usage'] = self.usage()
        now = random_state()
        answer['random'] = None if now == self.random else now
        self.random = now
        return answer | {'said': said}

    def load(self, name: str, opt: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        """
        Load a system, and return what is to be known of it.
        """
        self.players[name] = player = load_system(System(name, opt), **options)
        return {
            'batches': player.batches,
            'n_bytes': player.n_bytes,
            'longest_reply': player.longest_reply,
            'uses_gpu': torch.cuda.is_initialized(),
            'missing': self.missing,
        }

    def check(self, name: str, opt: Any, given: Any) -> None:
        """
        Check a system's options, or these of them.
        """
        _check_options(System(name, opt), given)

    def join(self, name: str, number: int) -> None:
        """
        Begin a dialogue.
        """
        self.participants[number] = self.players[name].join()

    def tell(self, name: str, number: int, do: str, *given: str) -> None:
        """
        Let a participant observe something, by a method of `Participant`.
        """
        getattr(self.participants[number], do)(*given)

    def let_speak(
        self, name: str, do: str, numbers: list[int], *given: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """
        Return the replies of participants, by a method of `Player`.

        :param given: the replies, to one that is given them.
        """
        replies = [
            [
                replace(_reply(fields), act=self.acts.pop(n, None) or _act(fields))
                for n, fields in zip(numbers, some, strict=True)
            ]
            for some in given
        ]
        spoken = getattr(self.players[name], do)(self._at(numbers), *replies)
        self.acts = {n: one.act for n, one in zip(numbers, spoken, strict=True)}
        return list(map(reply_fields, spoken))

    def states(self, name: str, numbers: list[int]) -> list[str]:
        """
        Return hashes of the states of participants.
        """
        return self.players[name].states(self._at(numbers))

    def count_tokens(self, name: str, texts: list[str]) -> list[int] | None:
        """
        Return how many tokens each text has.
        """
        return self.players[name].count_tokens(texts)

    def _at(self, numbers: list[int]) -> list[Participant]:
        return [self.participants[number] for number in numbers]

    def usage(self) -> Any:
        """
        Return what the systems have counted, the first one's where they share it.
        """
        usages = (spending_of(player.agent) for player in self.players.values())
        return next(filter(None, usages), None)


def serve_players(
    channel: socket.socket,
    missing: Sequence[str],
    place: str,
    modules: list[str],
    datapath: str,
    n_threads: int,
    addresses: Mapping[str, list[str]],
) -> int:
    """
    Answer requests until nobody is left to ask.
    """
    os.chdir(place)
    sys.path[:] = modules
    use_data_folder(datapath)
    torch.set_num_threads(n_threads)
    prepare_parlai()
    socket.getaddrinfo = functools.partial(
        _known_address, addresses, socket.getaddrinfo
    )
    return answer_requests(channel, PlayersHere(missing).answer)


def _known_address(
    addresses: Mapping[str, list[str]],
    original: Any,
    host: Any,
    *args: Any,
    **more: Any,
) -> Any:
    """
    Look up a host as `socket.getaddrinfo` does, which may not ask anybody here.
    """
    known = addresses.get(host) or [host]
    return [info for one in known for info in original(one, *args, **more)]


@contextlib.contextmanager
def _what_is_said() -> Iterator[list[tuple[int, str]]]:
    """
    Yield a list that is filled with what is printed and logged meanwhile.
    """
    said: list[tuple[int, str]] = []
    out = io.StringIO()
    shown = parlai_logging.logger

    def note(record: logging.LogRecord) -> None:
        if record.name != shown.name or record.levelno >= shown.streamHandler.level:
            said.append((record.levelno, record.getMessage()))

    handler = logging.Handler()
    handler.emit = note  # type: ignore[method-assign]
    loggers = logging.getLogger(), shown
    for one in loggers:
        one.addHandler(handler)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            yield said
    finally:
        for one in loggers:
            one.removeHandler(handler)
        said.insert(0, (0, out.getvalue()[:LONGEST_OUTPUT]))
