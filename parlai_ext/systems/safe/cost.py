"""
What loading a model may cost, by the size of its files: weights, time, memory.

Options that come with a model may claim a billion layers. torch tells a hook of each
weight before it is filled, so that a model which its files cannot hold is refused
before it costs anything. What no hook sees is watched from a thread: the processor time
of the thread that loads, and the memory of this process.
"""

import ctypes
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torch.nn.modules import module as torch_modules
from torch.nn.parameter import is_lazy

from parlai_ext.core.errors import printable
from parlai_ext.core.secrets import without_secrets
from parlai_ext.systems.safe.unpickle import BadModelFile

WEIGHTS_A_BYTE = 4  # as of weights in 2 bits, the smallest that there are
MORE_WEIGHTS = 500_000_000  # of parts that an agent brings along, such as a BERT
MOST_MODULES = 100_000  # layers and their parts
SECONDS = 600  # of processor time, and one more for so many bytes:
BYTES_A_SECOND = 10_000_000
MEMORY = 4 * 2**30  # bytes, and so many times the files:
COPIES = 8
PAUSE = 0.25  # seconds between two looks
PATIENCE = 60  # seconds in which a thread has to end after it was told to


class _TooCostly(BaseException):
    """
    Raised in the thread that loads; of a kind that no ``except Exception`` catches.
    """


@dataclass(eq=False)
class _Bound:
    """
    What one model may cost, and what it has cost so far.
    """

    path: str
    n_bytes: int
    n_weights: int = 0
    n_modules: int = 0
    problem: str = ''
    finished: threading.Event = field(default_factory=threading.Event)

    def count_weight(self, module: Any, name: str, weight: Any) -> None:
        if _current.get() is not self:
            return
        before = module._parameters.get(name)  # which this one replaces
        self.n_weights += _size(weight) - _size(before)
        most = WEIGHTS_A_BYTE * self.n_bytes + MORE_WEIGHTS
        if self.n_weights > most:
            raise self.refusal(f'more than {most:,} weights')

    def count_module(self, module: Any, name: str, part: Any) -> None:
        if _current.get() is not self:
            return
        self.n_modules += 1
        if self.n_modules > MOST_MODULES:
            raise self.refusal(f'more than {MOST_MODULES:,} layers and parts')

    def refusal(self, what: str) -> BadModelFile:
        self.problem = self.problem or (
            f'its options ask for {what}, and its files have {self.n_bytes:,} bytes'
        )
        return BadModelFile(self.path, self.problem)


_current: ContextVar[_Bound | None] = ContextVar('parlai_ext_bound', default=None)


def _size(weight: Any) -> int:
    if weight is None or is_lazy(weight):
        return 0
    return int(weight.numel())


@contextmanager
def bounded_cost(path: str | Path, files: Iterable[Path] = ()) -> Iterator[None]:
    """
    Refuse a model that costs more, while it is loaded inside, than files of this size
    can mean.

    :param path: its file or folder, for the message.
    :param files: all files that it is read from; of a folder, those in it.
    :raises BadModelFile: naming the file and the limit.
    """
    path = Path(path)
    found = path.iterdir() if path.is_dir() else (path, *files)
    sizes = {file: file.stat().st_size for file in found if file.is_file()}
    bound = _Bound(str(path), sum(sizes.values()))
    hooks = (
        torch_modules.register_module_parameter_registration_hook(bound.count_weight),
        torch_modules.register_module_module_registration_hook(bound.count_module),
    )
    token = _current.set(bound)
    try:
        with _watched(bound):
            yield
    finally:
        _current.reset(token)
        for hook in hooks:
            hook.remove()
    if bound.problem:  # which a caller on the way up has hidden
        raise BadModelFile(bound.path, bound.problem)


@contextmanager
def _watched(bound: _Bound) -> Iterator[None]:
    """
    Let a thread watch what this one costs, and end it when that is too much.
    """
    thread = threading.get_ident()
    watcher = threading.Thread(target=_watch, args=(bound, thread), daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            _end_watch(bound, watcher)
    except _TooCostly:
        raise BadModelFile(bound.path, bound.problem) from None


def _end_watch(bound: _Bound, watcher: threading.Thread) -> None:
    """
    End the watch, whatever the watcher or a signal raises here meanwhile.

    An exception that the watcher left behind is received here. It must not be taken
    back by setting none: CPython 3.11 then looks for one at each step of this thread,
    for ever, and under a profiler or a debugger it never comes to the next step.
    """
    interruption, received = None, False
    while not received:
        try:
            bound.finished.set()
            watcher.join()
            for _ in range(2):  # a loop is where Python raises what is pending
                pass
            received = True
        except _TooCostly:
            continue
        except BaseException as error:
            interruption = error
    if interruption is not None:
        raise interruption


def _watch(bound: _Bound, thread: int) -> None:
    """
    Tell a thread to end once it has cost too much, and end the process if it does not.
    """
    processor_time = time.process_time
    if hasattr(time, 'pthread_getcpuclockid'):  # the thread's own
        clock = time.pthread_getcpuclockid(thread)
        processor_time = partial(time.clock_gettime, clock)
    began, memory = processor_time(), _memory()
    seconds = SECONDS + bound.n_bytes / BYTES_A_SECOND
    most = MEMORY + COPIES * bound.n_bytes
    told = None
    while not bound.finished.wait(PAUSE):
        if processor_time() - began > seconds:
            limit = f'{seconds:,.0f} seconds of processor time'
        elif _memory() - memory > most:
            limit = f'{most / 2**30:,.1f} GiB of memory'
        else:
            continue
        bound.problem = bound.problem or f'loading it takes more than {limit}'
        told = told or time.monotonic()
        if time.monotonic() - told > PATIENCE:
            line = without_secrets(f'model file {bound.path}: {bound.problem}')
            os.write(2, f'error: {printable(line)}\n'.encode())
            os._exit(1)
        if not bound.finished.is_set():
            _raise_in(thread, _TooCostly)


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    """
    Raise an exception in another thread, at its next step in Python.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(kind)
    )


def _memory() -> int:
    """
    Return how many bytes of this process are in memory; 0 where that cannot be told.
    """
    try:
        with open('/proc/self/statm', 'rb') as file:
            return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')
    except OSError:
        return 0
