"""
Reads files of others in processes of their own: no pickle is opened in this one.

For each file a worker is forked (`isolation/fork_server.py`) with limits on time,
memory and the size of files. It reads by the allow-list of `unpickle.py` and writes
JSON and safetensors, which this process reads. A file that never ends, takes all memory
or crashes its parser ends its reader only. What was read is kept in the user's cache by
the hash of the file, so that a second time no process is needed.
"""

import hashlib
import json
import os
import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json
from parlai_ext.files.option_files import sha256
from parlai_ext.isolation.fork_server import ForkedTask, Worker
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
CHILD = 'parlai_ext.systems.safe.reader:read_as_worker'
PROBLEM = 'problem.json'
PROBLEMS = {kind.__name__: kind for kind in (Refused, BadModelFile, UserError, OSError)}
FAILED = 3  # exit code of a reader that says why


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
        given = {
            'read': name,
            'source': os.path.abspath(path),
            'path': path,
            'folder': folder,
        }
        memory, seconds = MEMORY + COPIES * size, SECONDS + size // BYTES_A_SECOND
        _wait_for(ForkedTask(CHILD, given, memory, folder, seconds))
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


def _wait_for(task: ForkedTask) -> None:
    """
    Have the files of a value written to a folder.

    :raises BadModelFile: naming the file and what is wrong with it.
    """
    path = task.given['path']
    try:
        code = Worker(task).wait()
    except UserError as error:
        raise UserError(f'{path}: {error}') from None
    if code == FAILED:
        kind, given = parse_own_json(Path(task.given['folder'], PROBLEM).read_bytes())
        raise PROBLEMS[kind](*given)
    if code:
        limits = f'{task.seconds:,} seconds or {task.memory / 2**30:,.1f} GiB'
        problem = f'it crashes the reader, or reading it takes more than {limits}'
        raise BadModelFile(path, problem)


def read_as_worker(
    channel: socket.socket,
    missing: Sequence[str],
    read: str,
    source: str,
    path: str,
    folder: str,
) -> int:
    """
    Read a file, and write its value, or what is wrong with it; return the exit code.
    """
    torch.jit.load = refuse_program
    module, _, name = read.partition(':')
    try:
        with errors_named(path), open(source, 'rb') as file:
            file.raw.name = path  # type: ignore[attr-defined]  # for messages
            value = vars(import_module(module))[name](file)
            ValueWriter().write(value, Path(folder))
        return 0
    except (UserError, OSError) as error:
        kind = 'OSError' if isinstance(error, OSError) else type(error).__name__
        given: Any = error.__reduce__()[1]
        Path(folder, PROBLEM).write_text(json.dumps([kind, given]), 'utf-8')
        return FAILED
