"""
A process of its own for systems and judges whose files or code nobody here vouches for:
it has no keys, no network and limits, and what it says is plain data.

It answers as it would in this process: the state of the random numbers goes there with
a request and comes back with its answer. It is killed when it exceeds its time, when
nobody needs it any more, and with this process.
"""

import contextlib
import io
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import torch
from parlai.utils import logging as parlai_logging

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import DATA_ERRORS, JsonObject, UserError, logger, printable
from parlai_ext.engines import data_folder, use_data_folder
from parlai_ext.isolation.fork_server import ForkedTask, ForkedWorker
from parlai_ext.isolation.policy import warn_once
from parlai_ext.systems.model_cache import free_memory
from parlai_ext.systems.players import AgentRaised, in_words, raise_unless_of_agent
from parlai_ext.systems.random_numbers import (
    RandomState,
    random_state,
    set_random_state,
)
from parlai_ext.systems.safe.load import named_servers
from parlai_ext.systems.spending import Usages
from parlai_ext.systems.torch_memory import is_out_of_memory
from parlai_ext.view import VisibleOutput

# what most agents of ParlAI, and the models of Hugging Face's library, are made of
PARLAI_IMPORT = 'parlai.agents.transformer.transformer'
HUB_IMPORT = 'transformers.modeling_utils'
SECONDS_TO_LOAD = 600  # at least
SHARE_OF_MEMORY = 0.9  # of what is free when a process begins
LONGEST_OUTPUT = 100_000  # characters that are shown of what code prints at a time
REFUSALS = 'PermissionError', 'gaierror'  # what code meets that asks for more
OWN_PROCESS = (
    'is not trusted, so that it works without network and writes no files; '
    '--trust-model-code FILE trusts the file of its model or its agent'
)


@contextlib.contextmanager
def answers_of_a_kind() -> Iterator[None]:
    """
    Refuse an answer that no process of ours gives.
    """
    try:
        yield
    except (*DATA_ERRORS, AgentRaised) as error:
        raise UserError(f'its process gives no answer: {in_words(error)}') from None


def addresses_of(host: str) -> list[str]:
    """
    Return the addresses of a host; none where they cannot be had.
    """
    with contextlib.suppress(OSError):
        return sorted({str(one[4][0]) for one in socket.getaddrinfo(host, None)})
    return []


class OwnProcess:
    """
    This side of a process.

    :param who: names what is loaded there, in messages.
    :param server: the subclass of `Server` that answers, as ``module:name``.
    :param opt: the options of what is loaded; servers in them may be asked.
    :param patience: seconds that it may take to answer, until it is killed; `None`:
        any.
    :param modules: that load it; they are imported once for all processes.
    :ivar reply: answers what the process asks meanwhile, in plain JSON data; `None`: it
        may ask nothing.
    :ivar gone: numbers of things there that nobody needs any more.
    """

    def __init__(
        self,
        who: str,
        server: str,
        opt: JsonObject,
        patience: float | None,
        *modules: str,
    ):
        self.who, self.patience = who, patience
        self.reply: Callable[[Any], Any] | None = None
        self.gone: list[int] = []
        self.usage: Usages = {}
        self._warned = False
        self._folder = TemporaryDirectory(ignore_cleanup_errors=True)
        self._random: RandomState | None = None
        servers = named_servers(opt)
        given = {
            'place': os.getcwd(),
            'modules': sys.path,
            'datapath': data_folder(),
            'n_threads': torch.get_num_threads(),
            # which the process could not ask for
            'addresses': {host: addresses_of(host) for host, _ in servers},
        }
        memory = int(free_memory() * SHARE_OF_MEMORY)
        ports = tuple({port for _, port in servers if port})
        slow_import = HUB_IMPORT if opt.get('hf_model') else PARLAI_IMPORT
        folder, modules = self._folder.name, (slow_import, *modules)
        self.worker = ForkedWorker(
            ForkedTask(server, given, memory, folder, None, ports, modules)
        )

    def ask(self, do: str, *given: Any) -> Any:
        """
        Return what a method of the `Server` returns.

        :raises UserError: when what is asked cannot go on.
        :raises AgentRaised: when its code raises.
        """
        state = random_state()
        gone, self.gone[:] = list(self.gone), []
        request = {'do': do, 'given': given, 'gone': gone, 'random': state}
        if state == self._random:
            del request['random']
        answer = self._answer(request)
        with answers_of_a_kind():
            self._random = answer['random'] or state
            if answer['random']:
                set_random_state(answer['random'])
            if answer['uses_gpu']:
                torch.cuda.init()  # so that its random numbers are seeded here
            self.usage = {**answer['usage']}
            # they are numbers
            sum(n or 0 for used in self.usage.values() for n in (used or {}).values())
            for level, text in answer['said']:  # logged, or printed (level 0)
                if int(level):
                    logger.log(int(level), '%s', printable(str(text)))
                elif sys.stderr is not None:
                    VisibleOutput(sys.stderr, progress=True).write(str(text))
            if limits := ', '.join(map(str, answer['missing'])):
                warn_once(f'what is not trusted: not enforced here: {limits}')
            (kind, words), value = answer['problem'], answer['value']
        self.warn_if_refused(str(words))
        if kind == 'raised':
            raise AgentRaised(str(words))
        if kind:
            raise UserError(str(words)) from MemoryError() if kind == 'memory' else None
        return value

    def _answer(self, request: Mapping[str, object]) -> Any:
        """
        Return the answer to a request, after what the process asks meanwhile.
        """
        patience = self.patience
        if patience and request['do'] == 'load':
            patience = max(patience, SECONDS_TO_LOAD)
        try:
            answer = self.worker.ask(request, patience)
            while self.reply and isinstance(answer, dict) and 'asks' in answer:
                with answers_of_a_kind():
                    told = self.reply(answer['asks'])
                answer = self.worker.ask(told, patience)
            return answer
        except BaseException as error:
            self.worker.end('its process was interrupted')
            if isinstance(error, UserError) and 'within' in str(error):
                raise UserError(
                    f'{error}; --reply-timeout SECONDS gives it more'
                ) from None
            raise

    def warn_if_refused(self, words: str) -> None:
        """
        Say once why code there may not do something, if an error says so.
        """
        if not self._warned and any(kind in words for kind in REFUSALS):
            self._warned = True
            logger.warning('%s %s', self.who, OWN_PROCESS)


# ---- in the other process


class Server:
    """
    What a process has loaded, and its answers.

    :param missing: what the kernel does not enforce here.
    :param ask_back: asks the process of the user something in the midst of an answer.
    :param like: what this process has alike with that of the user.
    :ivar things: what requests name, by number or name.
    """

    def __init__(
        self, missing: Sequence[str], ask_back: Callable[[Any], Any], **like: Any
    ) -> None:
        self.missing = missing
        self.ask_back = ask_back
        self.things: dict[int | str, Any] = {}
        os.chdir(like['place'])
        sys.path[:] = like['modules']
        use_data_folder(like['datapath'])
        torch.set_num_threads(like['n_threads'])
        prepare_parlai()
        original: Any = socket.getaddrinfo

        def known_address(host: Any, *args: Any, **more: Any) -> Any:
            # nobody may be asked from here
            known = like['addresses'].get(host) or [host]
            return [info for one in known for info in original(one, *args, **more)]

        socket.getaddrinfo = known_address
        self.random = random_state()

    def __call__(self, request: Mapping[str, Any]) -> JsonObject:
        """
        Return the answer to a request, with the random numbers as they are then.
        """
        answer: dict[str, Any] = {'value': None, 'problem': [None, None]}
        for number in request['gone']:
            self.things.pop(number, None)
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
        answer |= {'missing': self.missing, 'uses_gpu': torch.cuda.is_initialized()}
        return answer | {'said': said}

    def usage(self) -> Usages:
        """
        Return what was counted of what it used, by name.
        """
        return {}


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
