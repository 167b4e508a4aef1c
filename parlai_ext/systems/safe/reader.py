"""
Reads single files of others in processes of their own: no pickle is opened in this one.

For each file a worker is forked (`isolation/fork_server.py`) with limits on time,
memory and the size of files. It reads by the allow-list of `unpickle.py`, and says what
it read as JSON. A file that never ends, takes all memory or crashes its parser ends its
reader only.
"""

import json
import os
import socket
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json
from parlai_ext.isolation.confinement import is_confined
from parlai_ext.isolation.fork_server import ForkedTask, Worker, answer_requests
from parlai_ext.systems.safe.read import errors_named
from parlai_ext.systems.safe.unpickle import BadModelFile, Refused

SECONDS = 60  # of processor time, twice as many by the clock, and one more for each
BYTES_A_SECOND = 2_000_000
MEMORY = 4 * 2**30  # bytes besides those of the libraries, and so many times the file:
COPIES = 8
CHILD = 'parlai_ext.systems.safe.reader:read_as_worker'
PROBLEMS = {kind.__name__: kind for kind in (Refused, BadModelFile, UserError, OSError)}


def read_in_child(
    read: Callable[..., Any], path: str | Path, output: Path | None = None
) -> Any:
    """
    Return what a function of a module reads from a file, in another process, as JSON
    gives it back.

    :param read: takes an open file, and the output where there is one.
    :param output: a file that it is to write.
    :raises BadModelFile: naming the file.
    """
    path = str(path)
    if is_confined() and output is None:  # which is a process of its own already
        with open(path, 'rb') as file:
            return read(file)
    name, size = f'{read.__module__}:{read.__name__}', os.path.getsize(path)
    memory, seconds = MEMORY + COPIES * size, SECONDS + size // BYTES_A_SECOND
    more = [str(output.absolute())] if output else []
    given = {'read': name, 'source': os.path.abspath(path), 'path': path, 'more': more}
    folder = os.path.dirname(more[0]) if more else None
    try:
        modules = (read.__module__,)  # imported once, not by each reader
        task = ForkedTask(CHILD, given, memory, folder, seconds, modules=modules)
        kind, value = Worker(task).ask(None, None)
    except UserError:
        limits = f'{seconds:,} seconds or {memory / 2**30:,.1f} GiB'
        problem = f'it crashes the reader, or reading it takes more than {limits}'
        raise BadModelFile(path, problem) from None
    if kind:
        raise PROBLEMS[kind](*value)
    return value


def read_as_worker(
    channel: socket.socket,
    missing: Sequence[str],
    read: str,
    source: str,
    path: str,
    more: list[str],
) -> int:
    """
    Read a file, and say what it holds or what is wrong with it.
    """

    def answer(_: Any) -> tuple[str, Any]:
        module, _, name = read.partition(':')
        try:
            with errors_named(path), open(source, 'rb') as file:
                file.raw.name = path  # type: ignore[attr-defined]  # for messages
                value = vars(import_module(module))[name](file, *more)
                return '', parse_own_json(json.dumps(value, default=vars))
        except (UserError, OSError) as error:
            kind = 'OSError' if isinstance(error, OSError) else type(error).__name__
            return kind, error.__reduce__()[1]

    return answer_requests(channel, lambda _: answer)
