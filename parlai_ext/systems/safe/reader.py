"""
Reads files of others in processes of their own: no pickle is opened in this one.

A server process, which has torch imported and no keys in its environment, is started
when it is first needed. For each file it forks a reader with limits on time, memory and
the size of files. That reads by the allow-list of `unpickle.py` and writes JSON and
safetensors, which this process reads. A file that never ends, takes all memory or
crashes its parser ends its reader only. What was read is kept in the user's cache by
the hash of the file, so that a second time no process is needed.
"""

import functools
import hashlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json
from parlai_ext.files.option_files import sha256
from parlai_ext.isolation.processes import lower_limit, start_python
from parlai_ext.systems.fetch.data_folder import user_cache
from parlai_ext.systems.safe.read import errors_named, refuse_program
from parlai_ext.systems.safe.unpickle import BadModelFile, Refused, path_of
from parlai_ext.systems.safe.value_files import ValueWriter, read_value

# of the files that are kept, and of what was tried; another one reads all anew
VERSION = f'1 {version("tokenizers")}'
SECONDS = 60  # of processor time, twice as many by the clock, and one more for each
BYTES_A_SECOND = 2_000_000
MEMORY = 4 * 2**30  # bytes besides those of the libraries, and so many times the file:
COPIES = 8
LARGEST_KEPT = 2**30  # bytes of a file; of a larger one nothing is kept
MOST_KEPT = 8 * 2**30  # bytes of all that is kept
CHILD = 'from parlai_ext.systems.safe.reader import serve; serve()'
PROBLEM = 'problem.json'
PROBLEMS = {kind.__name__: kind for kind in (Refused, BadModelFile, UserError, OSError)}
DONE, FAILED = b'0', b'3'  # exit codes of a reader; at any other it has not said why


@dataclass(frozen=True)
class _Request:
    """
    What a reader is to do.

    :param read: a function, as ``module:name``.
    :param source: the file.
    :param path: what messages call it.
    :param folder: for the files of its value.
    :param memory: bytes.
    """

    read: str
    source: str
    path: str
    folder: str
    seconds: int
    memory: int


def read_in_child(read: Callable[..., Any], f: Any, map_location: Any = None) -> Any:
    """
    Return what a function of a module reads from a file, in another process.

    :param read: takes an open file.
    :param f: a file on the disk: its path, or open at its beginning.
    :param map_location: as of `torch.load`; without one, tensors are on the CPU.
    :raises BadModelFile: naming the file.
    """
    path, kept = path_of(f), None
    size, name = os.path.getsize(path), f'{read.__module__}:{read.__name__}'
    cache = user_cache() / 'read'
    with suppress(OSError):
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    if size <= LARGEST_KEPT:
        about = json.dumps([VERSION, name, sha256(Path(path))]).encode()
        kept = cache / hashlib.sha256(about).hexdigest()
    if kept is not None:
        with suppress(Exception):  # it may not be there, or be damaged
            value = read_value(kept, map_location)
            with suppress(OSError):
                os.utime(kept)  # it is in use
            return value
        shutil.rmtree(kept, ignore_errors=True)
    place = cache if os.access(cache, os.W_OK) else None
    with TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        source, seconds = os.path.abspath(path), SECONDS + size // BYTES_A_SECOND
        memory = MEMORY + COPIES * size
        _wait_for(_Request(name, source, path, folder, seconds, memory))
        with errors_named(path):
            value = read_value(Path(folder), map_location)
        if kept is not None:
            with suppress(OSError):  # another process was faster, or there is no cache
                os.rename(folder, kept)
            _remove_oldest(cache)
    return value


def _remove_oldest(cache: Path) -> None:
    """
    Remove what was not used for the longest time, as far as too much is kept.
    """
    total = 0
    with suppress(OSError):  # another process removes, too
        for folder in sorted(cache.iterdir(), key=os.path.getmtime, reverse=True):
            total += sum(file.stat().st_size for file in folder.iterdir())
            if total > MOST_KEPT:
                shutil.rmtree(folder, ignore_errors=True)


def _wait_for(request: _Request) -> None:
    """
    Have the files of a value written to a folder.

    A request is one message, which brings the pipe for its answer: so forks of this
    process share the server.

    :raises BadModelFile: naming the file and what is wrong with it.
    """
    reads, writes = os.pipe()
    with open(reads, 'rb', buffering=0) as answer:
        with suppress(ConnectionError):
            message = json.dumps(asdict(request)).encode()
            socket.send_fds(_server()[0], [message], [writes])
        os.close(writes)
        ended = answer.read(100)
    if not ended:
        _server.cache_clear()
        raise UserError(f'{request.path}: the process that reads models was killed')
    if ended == FAILED:
        kind, given = parse_own_json(Path(request.folder, PROBLEM).read_bytes())
        raise PROBLEMS[kind](*given)
    if ended != DONE:
        limits = f'{request.seconds:,} seconds or {request.memory / 2**30:,.1f} GiB'
        problem = f'it crashes the reader, or reading it takes more than {limits}'
        raise BadModelFile(request.path, problem)


@functools.cache
def _server() -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """
    Start the server; it ends when nobody has this end of the channel any more.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        return ours, start_python(CHILD, stdin=theirs, stdout=subprocess.DEVNULL)


# ---- the other process


def serve() -> None:
    """
    Fork a reader for each request, until nobody is left to ask.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for forks
    torch.jit.load = refuse_program
    channel = socket.socket(fileno=0)
    while True:
        message, answers, *_ = socket.recv_fds(channel, 2**20, 1)
        if not message:
            return
        if not os.fork():
            channel.close()
            _supervise(_Request(**parse_own_json(message)), answers[0])
        os.close(answers[0])


def _supervise(request: _Request, answer: int) -> NoReturn:
    """
    Fork a reader, kill it at its deadline or when nobody waits for it any more, and
    tell how it has ended.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reads, writes = os.pipe()  # which the system closes when the reader ends
    child = os.fork()
    if not child:
        os.close(answer)
        _read(request)
    os.close(writes)
    waiting = select.poll()
    waiting.register(reads)
    waiting.register(answer, 0)
    ready = waiting.poll(2_000 * request.seconds)
    if (reads, select.POLLHUP) not in ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with suppress(BrokenPipeError):
        os.write(answer, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _read(request: _Request) -> NoReturn:
    """
    Read a file with its limits, and write its value, or what is wrong with it.
    """
    code, folder = 1, Path(request.folder)
    try:
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        for what, most in (
            (resource.RLIMIT_CPU, request.seconds),
            (resource.RLIMIT_AS, pages * resource.getpagesize() + request.memory),
            (resource.RLIMIT_FSIZE, request.memory),
            (resource.RLIMIT_CORE, 0),
        ):
            lower_limit(what, most)
        module, _, name = request.read.partition(':')
        with errors_named(request.path), open(request.source, 'rb') as file:
            file.raw.name = request.path  # type: ignore[attr-defined]  # for messages
            read = vars(import_module(module))[name]
            ValueWriter().write(read(file), folder)
        code = 0
    except (UserError, OSError) as error:
        kind = 'OSError' if isinstance(error, OSError) else type(error).__name__
        given: Any = error.__reduce__()[1]
        (folder / PROBLEM).write_text(json.dumps([kind, given]), 'utf-8')
        code = int(FAILED)
    finally:
        os._exit(code)
