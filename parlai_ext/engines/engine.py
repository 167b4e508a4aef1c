"""
What an engine is: it gives tasks to workers and yields what they return.

An engine knows nothing of dialogue. What a task is and what a worker does is said by
the job; where the worker runs is the engine's choice. Workers of other machines prove
that they see the folder of the run.
"""

import fcntl
import hashlib
import os
import platform
import secrets
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from parlai_ext.core import UserError, frozen
from parlai_ext.store import LEFTOVER, make_folder
from parlai_ext.view.progress import Bar

Tell = Callable[[int, int], object]
Results = Generator[tuple['Task', Any], None, None]


@frozen
class Task:
    """
    A piece of work that is done as a whole.

    :param name: what error lines call it.
    :param data: plain data, which a worker is given and which can be pickled.
    :param size: how far the bar moves for it.
    :param weights: bytes of each model that it needs, by a name of the weights.
    :param number: its place in the order of the tasks, which an engine notes.
    """

    name: str
    data: Any
    size: int
    weights: Mapping[str, int] = field(default_factory=dict)
    number: int = 0


class Worker:
    """
    Does the tasks of one job, one after the other, and keeps its models loaded between
    them.

    :cvar budget: bytes of weights that may be loaded at once; `None`: not known.
    """

    budget: int | None = None

    def work(self, data: Any, tell: Tell) -> Any:
        """
        Do a task and return its result, plain data.

        :param tell: is called with how many steps are finished, and of how many.
        :raises UserError: ends the job with this line.
        """
        raise NotImplementedError

    def loaded(self) -> Collection[str]:
        """
        Return the names of the weights that are loaded now.
        """
        return ()

    def close(self) -> Any:
        """
        Free what is loaded; return what the job wants to know at the end.
        """
        return None


@frozen
class Job:
    """
    Tasks of one kind.

    :param here: makes the worker of this process.
    :param elsewhere: makes the worker of another process, and can be pickled. It is
        given the share of its device's memory that the worker may use, from 0 to 1.
    :param steps: what `Worker.work` tells of, for the bar.
    :param whole_tasks: the bar counts tasks that are finished, and no parts of them.
    :param key: stands for `elsewhere`: workers of an earlier job with this key go on.
    :param in_order: results are yielded in the order of the tasks; else, as they come.
    :param lookahead: so many tasks at most are read, but not yielded; `None`: any.
    :param on_close: is given what each worker returns when it is closed.
    :param small: several workers may be started unasked: their models are small, and
        other processes compute what this one does.
    """

    here: Callable[[], Worker]
    elsewhere: Callable[[float], Worker]
    steps: str
    key: str
    in_order: bool = False
    whole_tasks: bool = False
    lookahead: int | None = None
    on_close: Callable[[Any], object] = lambda last: None
    small: bool = False


class Engine(Protocol):
    """
    A place where jobs run.
    """

    def run(self, job: Job, tasks: Iterable[Task], bar: Bar) -> Results:
        """
        Do the tasks; yield each with its result. Close the iterator when it is left
        early.

        :param bar: is moved by the sizes of the tasks.
        """
        ...


class EngineFailed(UserError):
    """
    An engine cannot go on: no worker is left, or one may not take part. The tasks are
    not to blame, and what is written stays.
    """


class WorkerDiffers(Exception):
    """
    A worker has other code, models or files than the process that gives it tasks.
    """


def refuse_difference(what: str, there: object, here: object) -> None:
    """
    Refuse a worker that has something else than the process that gives it tasks.

    :raises WorkerDiffers: names both.
    """
    if there != here:
        raise WorkerDiffers(f'{what}: {there} there, {here} here')


# ------------------------------------------- the code that runs here, and its versions

PACKAGES = ('parlai_ext', 'parlai', 'torch', 'transformers', 'tokenizers', 'numpy')
PARTS = ('', '.agents', '.tasks', '.worlds', '.zoo_configs')
SUFFIXES = ('.py', '.yaml', '.opt')


def versions() -> dict[str, str]:
    """
    Return the versions of what numbers may depend on.
    """
    facts = {'python': platform.python_version()}
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = 'absent'
    return facts


@cache
def code_facts() -> dict[str, str]:
    """
    Return versions by package, and a hash of this package's own files: two checkouts
    of one version may differ.
    """
    facts = versions()
    digest = hashlib.sha256()
    for part in PARTS:
        spec = find_spec(f'parlai_ext{part}')
        for root in sorted((spec and spec.submodule_search_locations) or ()):
            for path in sorted(Path(root).rglob('*')):
                if path.suffix in SUFFIXES and path.is_file():
                    name = f'{part}/{path.relative_to(root).as_posix()}'
                    digest.update(name.encode() + b'\0' + path.read_bytes() + b'\0')
    facts['parlai_ext'] += f' #{digest.hexdigest()[:12]}'
    return facts


# --- the folder that all workers see --------------------------------------------------
# A folder that several machines must see: a token in it, an empty file of a name that
# nobody can guess, proves that they do.

TOKEN = f'.token{LEFTOVER}'
VISIBLE_SECONDS = 60.0  # network file systems keep old listings for up to a minute


@contextmanager
def token_in(folder: Path) -> Iterator[Path]:
    """
    Make a token in a folder, and remove it at the end. One that a killed process leaves
    is removed by `remove_abandoned_tokens`.
    """
    make_folder(folder)
    path = folder.resolve() / f'.{secrets.token_hex(16)}{TOKEN}'
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if path.exists():
            break
        os.close(handle)  # it was taken for an abandoned one before it was locked
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def remove_abandoned_tokens(folder: Path) -> None:
    """
    Remove the tokens of processes that were killed: nobody has them locked.
    """
    for path in folder.glob(f'.*{TOKEN}'):
        with suppress(OSError), open(path, 'rb') as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def wait_for_files(paths: Iterable[Path], seconds: float = VISIBLE_SECONDS) -> None:
    """
    Wait until files that another machine has written are seen here.

    :raises UserError: names the first that does not appear.
    """
    deadline = time.monotonic() + seconds
    for path in paths:
        while not path.exists():
            if time.monotonic() > deadline:
                raise UserError(
                    f'{path} was written by a worker and is not seen here after '
                    f'{seconds:g} s: is the folder on storage that all machines share?'
                )
            time.sleep(0.2)
