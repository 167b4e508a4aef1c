"""
Works on what others wrote in processes of their own, which the kernel confines: they
may hang, crash or be taken over.

A server process without keys in its environment is started when it is first needed. For
each task it forks a supervisor, and that a worker with limits. The worker ends, and all
that it has started, at its limits, when nobody is left at our end of its channel, and
with this process. It takes from itself what code of others could do harm with: the
network, files but to read them, and other processes. Linux enforces that by Landlock
and seccomp, whatever code runs, for the process and all that it starts, and for good.
"""

import ctypes
import functools
import json
import os
import platform
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from glob import glob
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NoReturn

from parlai_ext.core import UserError, first_line, frozen, parse_own_json

CHILD = 'from parlai_ext.isolation.fork_server import serve; serve()'
C_LIBRARY = ctypes.CDLL(None)  # for what Python has no name for
DIES_WITH_PARENT, ADOPTS_ORPHANS = 1, 36  # of prctl(2)
ENDED = b'\nended '  # begins the last line of a channel
LARGEST_ANSWER = 2**29  # bytes
# of the environment; no more, since it holds keys
ENVIRONMENT = (
    'PATH',
    'HOME',
    'LANG',
    'LC_ALL',
    'LD_LIBRARY_PATH',
    'TMPDIR',
    'PYTHONHASHSEED',
    'XDG_CACHE_HOME',
    'XDG_CONFIG_HOME',
    'HF_HOME',
    'HF_HUB_CACHE',
    'CUDA_VISIBLE_DEVICES',
    'CUDA_DEVICE_ORDER',
    'PYTORCH_CUDA_ALLOC_CONF',
    # by which numbers of a GPU are those of this process
    'CUBLAS_WORKSPACE_CONFIG',
    'NVIDIA_TF32_OVERRIDE',
    'PYTORCH_ALLOC_CONF',
)
ALONE = {
    'OMP_NUM_THREADS': '1',
    'OPENBLAS_NUM_THREADS': '1',
    'TOKENIZERS_PARALLELISM': 'false',
    'HF_HUB_OFFLINE': '1',
    # ParlAI looks for a GPU as it is imported: by default torch would begin to use it
    # there, and no fork could any more
    'PYTORCH_NVML_BASED_CUDA_CHECK': '1',
}


@frozen
class ForkedTask:
    """
    What a worker does, and its limits.

    :param run: a function, as ``module:name``. It takes what the kernel does not
        enforce, a function that asks the other side back in the midst of an answer, and
        what is given, and returns what answers a request.
    :param given: plain JSON data.
    :param memory: bytes besides those of the libraries.
    :param folder: the only one in which it may write.
    :param seconds: of processor time, and twice as many by the clock.
    :param ports: of TCP, to which it may connect.
    :param modules: what the server is to import, so that workers need not.
    """

    run: str
    given: Mapping[str, Any]
    memory: int
    folder: str | None = None
    seconds: int | None = None
    ports: tuple[int, ...] = ()
    modules: tuple[str, ...] = ()


class ForkedWorker:
    """
    This side of a forked worker; it is killed when this is dropped.

    :ivar ended: why it has ended; '' while it has not.
    """

    def __init__(self, task: ForkedTask):
        self.ended = ''
        self._channel, theirs = socket.socketpair()
        with theirs:
            message = json.dumps(asdict(task)).encode()
            for _ in range(2):
                try:
                    # one message, so that forks of this process share the server
                    socket.send_fds(_server()[0], [message], [theirs.fileno()])
                    break
                except ConnectionError:
                    _server.cache_clear()

    def ask(self, request: Any, patience: float | None) -> Any:
        """
        Return the answer to a request, plain JSON data. A worker that does not give one
        is killed.

        :param patience: seconds; `None`: any.
        :raises UserError: when it has ended.
        """
        if self.ended:
            raise UserError(self.ended)
        try:
            return self._answer(json.dumps(request).encode() + b'\n', patience)
        except UserError as error:
            self.end(str(error))
            raise
        except TimeoutError:
            self.end(f'no reply within {patience:g} s')
        except (OSError, ValueError) as error:
            self.end(f'its process gives no answer: {first_line(error)}')
        except BaseException:  # Ctrl-C: its answer would be to nobody's question
            self.end('its process was interrupted')
            raise
        raise UserError(self.ended)

    def end(self, reason: str) -> None:
        """
        Kill it, unless it has ended.
        """
        self.ended = self.ended or reason
        with suppress(OSError):  # forks of this process may hold it, too
            self._channel.shutdown(socket.SHUT_RDWR)
        self._channel.close()

    def _answer(self, request: bytes, patience: float | None) -> Any:
        end = None if patience is None else time.monotonic() + patience
        self._channel.settimeout(patience)
        with suppress(ConnectionError):  # it tells how it has ended
            self._channel.sendall(request)
        data = bytearray()
        while not data.endswith(b'\n') or len(data) == 1:
            if end is not None:
                self._channel.settimeout(max(end - time.monotonic(), 1e-3))
            part = b''
            with suppress(ConnectionResetError):  # it was killed before it has read all
                part = self._channel.recv(2**20)
            data += part
            if len(data) > LARGEST_ANSWER:
                raise UserError(f'it says more than {LARGEST_ANSWER:,} bytes at once')
            if not part:
                _, found, last = bytes(data).rpartition(ENDED)
                if not found:
                    _server.cache_clear()
                    raise UserError('the server of its process was killed')
                code = int(last)
                how = f'was ended by {signal.Signals(-code).name}' if code < 0 else ''
                raise UserError(f'its process {how or f"ended with exit code {code}"}')
        return parse_own_json(bytes(data))


@functools.cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """
    Start the server: Python with the packages of this process, one thread, and without
    the keys that are in the environment. It ends when nobody has this end of the
    channel any more.
    """
    if sys.platform != 'linux':
        raise UserError(
            'a chat template, and what is not trusted, is read in a process of its '
            'own, which needs Linux; --trust-model-code FILE trusts the file of a '
            'model or an agent'
        )
    environment = {key: os.environ[key] for key in ENVIRONMENT if key in os.environ}
    environment['PYTHONPATH'] = os.pathsep.join(path for path in sys.path if path)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        return ours, subprocess.Popen(
            [sys.executable, '-P', '-c', CHILD],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment | ALONE,
            # else code could type into the user's terminal, and meet Ctrl-C
            start_new_session=True,
        )


# --- the other processes --------------------------------------------------------------


def serve() -> None:
    """
    Fork a supervisor for each task, until nobody is left to ask.

    What a task needs is imported here, once: it is ours or a library's.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    requests = socket.socket(fileno=0)
    while True:
        message, channels, *_ = socket.recv_fds(requests, 2**20, 1)
        if not message:
            return
        task = ForkedTask(**parse_own_json(message))
        for module in (task.run.partition(':')[0], *task.modules):
            import_module(module)
        if not os.fork():
            requests.close()
            _supervise(task, socket.socket(fileno=channels[0]))
        os.close(channels[0])


def _supervise(task: ForkedTask, channel: socket.socket) -> NoReturn:
    """
    Fork a worker, kill it at its deadline or when nobody waits for it any more, and
    tell how it has ended.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    C_LIBRARY.prctl(ADOPTS_ORPHANS, 1, 0, 0, 0)
    worker = os.fork()
    if not worker:
        _work(task, channel)
    waiting = select.poll()
    waiting.register(os.pidfd_open(worker), select.POLLIN)
    waiting.register(channel, 0)
    waiting.poll(None if task.seconds is None else 2_000 * task.seconds)
    os.kill(worker, signal.SIGKILL)  # in vain where it has ended
    _, status = os.waitpid(worker, 0)
    # what the worker has started and left behind
    children = Path(f'/proc/self/task/{os.getpid()}/children')
    with suppress(OSError):  # there are none, or no Linux
        while True:
            for child in children.read_text().split():
                os.kill(int(child), signal.SIGKILL)
            os.waitpid(-1, 0)
    with suppress(BrokenPipeError):
        channel.sendall(b'%s%d' % (ENDED, os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _work(task: ForkedTask, channel: socket.socket) -> NoReturn:
    """
    Do a task with its limits: answer the requests of `ForkedWorker.ask` until nobody is
    left to ask.
    """
    code = 1
    try:
        C_LIBRARY.prctl(DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
        with suppress(OSError):  # of all processes, let the system end this one first
            Path('/proc/self/oom_score_adj').write_text('1000')
        if task.folder:
            os.environ['TMPDIR'] = tempfile.tempdir = task.folder
        missing = confine(task)
        lower_limits(task)
        requests = channel.makefile('rb')

        def say(value: Any) -> None:
            channel.sendall(json.dumps(value).encode() + b'\n')

        def ask_back(question: Any) -> Any:
            say(question)
            return parse_own_json(next(requests))

        answer = resolve_name(task.run)(missing, ask_back, **task.given)
        for request in requests:
            say(answer(parse_own_json(request)))
        code = 0
    finally:
        os._exit(code)


def lower_limits(task: ForkedTask) -> None:
    """
    Lower the limits of this process to those of a task.
    """
    # what this process can write to already, as its limit counts that
    lines = Path('/proc/self/status').read_text().split('\n')
    data = sum(int(line.split()[1]) for line in lines if line[:7] == 'VmData:')
    lower_limit(resource.RLIMIT_DATA, data * 1024 + task.memory)
    lower_limit(resource.RLIMIT_FSIZE, task.memory)
    lower_limit(resource.RLIMIT_CORE, 0)
    if task.seconds is not None:
        lower_limit(resource.RLIMIT_CPU, task.seconds)


def lower_limit(what: int, most: int) -> None:
    """
    Lower a limit of this process; one that is lower already, as schedulers set it,
    stays.

    :param what: a ``RLIMIT_`` of `resource`.
    """
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, hard))


# --- what the kernel takes from them --------------------------------------------------

# what may not be enforced, in words; by the version of Landlock that does it whole
NETWORK = 'no network'
LIMITS = {
    "no reading of other processes' keys": 1,
    'no writing': 3,
    'no signals to other processes': 6,
}
# Landlock (linux/landlock.h): system calls, and rights by the version they came with
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1  # asks for the version of the kernel
WRITING = (1 << 1) | sum(1 << right for right in range(4, 13))  # remove, make, write
MOVING, TRUNCATING = 1 << 13, 1 << 14  # since versions 2 and 3
IN_FILE = (1 << 1) | TRUNCATING  # of these, what a file has that is no folder
TCP = 0b11  # bind and connect, since version 4
SCOPES = 0b11  # abstract sockets and signals of processes outside, since version 6
PATH_RULE, PORT_RULE = 1, 2
CONNECT = 1 << 1
DEVICES = ('/dev/null', '/dev/nvidia*', '/dev/kfd', '/dev/dri/*')

# seccomp (linux/seccomp.h): by machine, its name in the kernel, and the numbers of
# socket, of prlimit, and of what is refused: ptrace, process_vm_readv and
# process_vm_writev; memory, semaphores and messages of System V, which outlive a
# process; and keys that the kernel keeps for the user
MACHINES = {
    'x86_64': (
        0xC000003E,
        41,
        302,
        (101, 310, 311, *range(29, 32), *range(64, 72), 220, *range(248, 251)),
    ),
    'aarch64': (
        0xC00000B7,
        198,
        261,
        (117, 270, 271, *range(186, 198), *range(217, 220)),
    ),
}
IO_URING = 425, 426, 427  # which would open sockets, too
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2  # of prctl(2)
LOAD, EQUAL, AT_LEAST, RETURN, MASK = 0x20, 0x15, 0x35, 0x06, 0x54
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 13  # as a file that one may not open
OTHER_NUMBERS = 0x40000000  # of x86_64: another way to the same calls
NUMBER, MACHINE, FIRST, SECOND = 0, 4, 16, 24  # where a filter finds what is asked for
INTERNET, STREAM, KINDS = (2, 10), 1, 0xF  # families of addresses; a kind of socket

# capabilities(7): the version of their form; of root's, those to read files are kept
FORM = 0x20080522
READ_FILES = 0b110


_is_confined = False


def is_confined() -> bool:
    """
    True if this process has been confined.
    """
    return _is_confined


def confine(task: ForkedTask) -> list[str]:
    """
    Confine this process to reading files, writing in the folder of its task, and
    connecting to its ports.

    :returns: what this kernel does not enforce, in words.
    """
    global _is_confined
    _is_confined = True
    C_LIBRARY.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for kept in (READ_FILES, 0):  # the first fails without them
        sets = struct.pack('=6I', kept, kept, 0, 0, 0, 0)
        if C_LIBRARY.capset(struct.pack('=Ii', FORM, 0), sets) == 0:
            break
    version = _limit_files_and_ports(task)
    missing = [limit for limit, since in LIMITS.items() if version < since]
    if not _refuse_calls(bool(task.ports)) or (task.ports and version < 4):
        missing.append(NETWORK)
    return missing


def _limit_files_and_ports(task: ForkedTask) -> int:
    """
    Limit the files and processes that may be changed, and ports.

    :returns: the version of Landlock that does it, 0 if none does.
    """
    version = C_LIBRARY.syscall(CREATE_RULESET, None, 0, VERSION)
    if version < 1:
        return 0
    files = WRITING | MOVING * (version >= 2) | TRUNCATING * (version >= 3)
    fields = [files, *[TCP] * (version >= 4), *[SCOPES] * (version >= 6)]
    attributes = struct.pack(f'={len(fields)}Q', *fields)
    rules = C_LIBRARY.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return 0
    devices = [path for name in DEVICES for path in glob(name)]
    for path in filter(None, (task.folder, *devices)):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = files if os.path.isdir(path) else files & IN_FILE
        C_LIBRARY.syscall(
            ADD_RULE, rules, PATH_RULE, struct.pack('=Qi', rights, handle), 0
        )
        os.close(handle)
    for port in task.ports if version >= 4 else ():
        C_LIBRARY.syscall(
            ADD_RULE, rules, PORT_RULE, struct.pack('=QQ', CONNECT, port), 0
        )
    return 0 if C_LIBRARY.syscall(RESTRICT_SELF, rules, 0) else version


def _refuse_calls(connects: bool) -> bool:
    """
    Return whether seccomp refuses sockets, and looking into other processes.

    :param connects: leave out streams over the internet.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return False
    name, socket, limits, calls = machine
    refuse, allow = (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)
    # of each step: how many of the next ones are left out, if it holds and if not
    steps = [
        (LOAD, 0, 0, MACHINE),
        (EQUAL, 1, 0, name),
        refuse,
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, OTHER_NUMBERS),
        refuse,
    ]
    for number in (*calls, *IO_URING):
        steps += [(EQUAL, 0, 1, number), refuse]
    steps += [
        (EQUAL, 0, 4, limits),
        (LOAD, 0, 0, FIRST),
        (EQUAL, 0, 1, 0),  # its own limits, not those of another process
        allow,
        refuse,
        (EQUAL, 1, 0, socket),
        allow,
    ]
    if connects:
        steps += [
            (LOAD, 0, 0, FIRST),
            (EQUAL, 1, 0, INTERNET[0]),
            (EQUAL, 0, 4, INTERNET[1]),
            (LOAD, 0, 0, SECOND),
            (MASK, 0, 0, KINDS),
            (EQUAL, 0, 1, STREAM),
            allow,
        ]
    steps.append(refuse)
    program = b''.join(struct.pack('=HBBI', *step) for step in steps)
    buffer = ctypes.create_string_buffer(program)
    pointer = struct.pack('@HP', len(program) // 8, ctypes.addressof(buffer))
    return bool(C_LIBRARY.prctl(SECCOMP, FILTER, pointer) == 0)
