"""
What an engine is: it gives tasks to workers and yields what they return; and the engine
of this machine, with its forks.

An engine knows nothing of dialogue. What a task is and what a worker does is said by
the job; where the worker runs is the engine's choice. The process of a worker, here or
on another machine, checks that it may take part, does tasks, and tells how far it is;
workers of other machines prove that they see the folder of the run.

Nothing here imports Ray, which only calls the methods of `Host`.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import secrets
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from tqdm import tqdm

from parlai_ext.core import UserError, first_line, frozen, without_secrets
from parlai_ext.store import LEFTOVER, make_folder
from parlai_ext.view.progress import Bar, PartProgress, hide_bars

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
    :param lookahead: results are yielded in the order of the tasks, of which so many at
        most are read, but not yielded. `None`: any, and results as they come.
    :param on_close: is given what each worker returns when it is closed.
    :param small: several workers may be started unasked: their models are small, and
        other processes compute what this one does.
    """

    here: Callable[[], Worker]
    elsewhere: Callable[[float], Worker]
    steps: str
    key: str
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
    Return versions by package, and a hash of this package's code and settings
    (`SUFFIXES`): two checkouts of one version may differ.
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


# --- the process of a worker ----------------------------------------------------------


def portable(error: Exception) -> Exception:
    """
    Return an exception of a worker as one that any process can unpickle, without
    secrets: a `UserError`, a `WorkerDiffers`, an `OSError`; any other is a
    `RuntimeError` with its trace.
    """
    line = without_secrets(first_line(error))
    for kind in (UserError, WorkerDiffers):
        if isinstance(error, kind):
            return kind(line)
    if isinstance(error, OSError) and error.errno is not None:
        file = None if error.filename is None else str(error.filename)
        return OSError(error.errno, error.strerror or line, file)
    trace = without_secrets(traceback.format_exc())
    return RuntimeError(f'{type(error).__name__}: {line}\n{trace}')


def error_of_worker(error: Exception, where: str, starting: bool = False) -> Exception:
    """
    Return the exception that ends the job, of what `portable` returned.

    :param where: names the worker.
    :param starting: it happened before the worker was ready for tasks.
    """
    is_mistake = isinstance(error, UserError)
    if isinstance(error, WorkerDiffers) or (is_mistake and starting):
        return EngineFailed(f'{where} cannot take part; {error}')
    if is_mistake:
        return UserError(f'{error} ({where})')
    return RuntimeError(f'{where}: {error}') if type(error) is RuntimeError else error


def go_to_origin(folder: str, token: Path, facts: Mapping[str, str]) -> None:
    """
    Go to the current folder of the process that gives tasks, so that relative paths
    mean the same.

    :raises WorkerDiffers: where its token or its code is not seen from here.
    """
    if os.path.isdir(folder):
        os.chdir(folder)
    if not token.is_file():
        raise WorkerDiffers(
            f'it does not see {token.parent}: that folder must be on storage that all '
            'machines share, under the same path'
        )
    here = code_facts()
    for what, value in facts.items():
        refuse_difference(what, here.get(what), value)


@frozen
class Done:
    """
    The result of a task, and the names of the weights that are loaded after it.
    """

    result: Any
    loaded: Collection[str]


class Host:
    """
    A process that is a worker: of one job at a time.

    :param tell: is called with how much of the current task is finished, and with the
        number of steps since the last call.
    """

    def __init__(
        self, tell: Callable[[tuple[int, int]], object] = lambda told: None
    ) -> None:
        self.key: str | None = None
        self.worker: Worker | None = None
        self._tell = tell
        self._progress = PartProgress(None, '')

    def begin(
        self,
        key: str,
        make: Callable[[float], Worker],
        share: float,
        origin: tuple[str, Path, Mapping[str, str]] | None = None,
    ) -> int | None | Exception:
        """
        Become a worker of a job, unless this is one already. Return its budget; or why
        it cannot be one, a `WorkerDiffers` where it does not see the shared folder or
        has other code.

        :param origin: of the process that gives tasks, its current folder, the token
            and what `code_facts` returned; `None` for a fork, which is as that process.
        """
        try:
            if origin is not None:
                go_to_origin(*origin)
            if self.key != key or self.worker is None:
                self.end()
                self.worker, self.key = make(share), key
        except Exception as error:
            return portable(error)
        return self.worker.budget

    def work(self, data: Any, size: int, whole: bool = False) -> Done | Exception:
        """
        Do a task.

        :param whole: as `Job.whole_tasks`.
        """
        assert self.worker is not None
        parts = self._progress = PartProgress(None, '', whole)
        parts.begin(size)

        def tell(n: int, of: int) -> None:
            parts.tell(n, of)
            self._tell((parts.n_finished, n))

        try:
            return Done(self.worker.work(data, tell), tuple(self.worker.loaded()))
        except Exception as error:
            return portable(error)

    def sign(self) -> int:
        """
        Return how much of the current task is finished: a sign of life, too.
        """
        return self._progress.n_finished

    def end(self) -> Any:
        """
        Close the worker, if there is one. Return what it tells at the end of its job.
        """
        worker, self.worker, self.key = self.worker, None, None
        return worker.close() if worker is not None else None


class AssignedWorker:
    """
    A worker as the process that gives it tasks knows it.

    :ivar task: what it does; `None` while it does nothing.
    :ivar finished: how much of the task is finished.
    :ivar loaded: the names of the weights that it has loaded.
    """

    task: Task | None = None
    finished: int = 0
    loaded: Collection[str] = ()


class JobTasks:
    """
    The tasks of a job, read as far ahead as it says, and their results.

    Tasks wait by the weights that they need, of which there are few kinds. A worker is
    given a task for which it has to load the fewest bytes; among equals one whose
    weights no other worker is busy with, then the first in the order of the tasks. An
    error while tasks are made waits until the tasks before it are done, as it does
    where they are done one after the other.
    """

    def __init__(self, job: Job, tasks: Iterable[Task]) -> None:
        self._waiting: dict[frozenset[str], dict[int, Task]] = {}  # by their numbers
        self._busy = Counter[frozenset[str]]()  # workers, by what is loaded
        self._job = job
        self._tasks = iter(tasks)
        self._n_read = self._n_yielded = 0
        self._size_done = self._size_shown = 0
        self._results: dict[int, tuple[Task, Any]] = {}
        self._error: Exception | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def take(
        self, loaded: Collection[str], budget: int | None, largest: int | None
    ) -> Task | None:
        """
        Remove and return the task for a worker; `None` if it should wait.

        :param loaded: the weights that the worker has loaded.
        :param budget: bytes of weights that it may load; tasks that need more are left
            to others.
        :param largest: the budget of the worker that may load most: tasks that need
            more still are left to it.
        """

        def may_do(task: Task) -> bool:
            size = sum(task.weights.values())
            is_for_largest = budget == largest and size > (largest or 0)
            return budget is None or size <= budget or is_for_largest

        def cost(task: Task) -> tuple[int, int, int]:
            missing = task.weights.keys() - loaded
            to_load = sum(task.weights[name] for name in missing)
            return to_load, self._busy[frozenset(task.weights)], task.number

        firsts = [tasks[min(tasks)] for tasks in self._waiting.values() if tasks]
        best = min(filter(may_do, firsts), key=cost, default=None)
        if best is not None:
            needed = frozenset(best.weights)
            del self._waiting[needed][best.number]
            self._busy[needed] += 1
        return best

    def _wait(self, task: Task) -> None:
        self._waiting.setdefault(frozenset(task.weights), {})[task.number] = task

    def give_back(self, task: Task) -> None:
        """
        Let a task that a worker was given wait for another one.
        """
        self._busy[frozenset(task.weights)] -= 1
        self._wait(task)

    def read(self) -> bool:
        """
        Read tasks; return whether results are still to come.
        """
        limit = self._job.lookahead
        while self._error is None and (
            limit is None or self._n_read - self._n_yielded < limit
        ):
            try:
                self._wait(replace(next(self._tasks), number=self._n_read))
            except StopIteration:
                break
            except Exception as error:
                self._error = error
                break
            self._n_read += 1
        if self._n_yielded < self._n_read:
            return True
        if self._error is not None:
            raise self._error
        return False

    def finish(self, worker: AssignedWorker, done: Done) -> None:
        """
        Take the result of a worker's task.
        """
        task = worker.task
        assert task is not None
        worker.task, worker.finished, worker.loaded = None, 0, done.loaded
        self._busy[frozenset(task.weights)] -= 1
        self._results[task.number] = task, done.result
        self._size_done += task.size

    def move_bar(self, bar: Bar, workers: Iterable[AssignedWorker]) -> None:
        """
        Move the bar to what is finished, also of the tasks that are worked on.
        """
        parts = sum(min(one.finished, one.task.size) for one in workers if one.task)
        more = self._size_done + parts - self._size_shown
        if more > 0:  # what a lost worker had finished is done again
            self._size_shown += more
            bar.update(more)

    def finished(self) -> Iterator[tuple[Task, Any]]:
        """
        Yield what is finished and may be yielded now.
        """
        in_order = self._job.lookahead is not None
        for number in sorted(self._results) if in_order else list(self._results):
            if in_order and number != self._n_yielded:
                return
            self._n_yielded += 1
            yield self._results.pop(number)


# --- processes of this machine --------------------------------------------------------
# Runs tasks in processes that are forked from this one, with one thread each.
#
# A fork starts in milliseconds, with everything imported, and shares the models that
# are loaded here. It is made when a task waits for it, and dies with this process.

STOP_SECONDS = 5.0  # for a worker to save what it has
PR_SET_PDEATHSIG = 1  # of prctl(2)
ONE_THREAD = {'OMP_NUM_THREADS': '1', 'TOKENIZERS_PARALLELISM': 'false'}


def run_in_forks(job: Job, tasks: Iterable[Task], bar: Bar, n_workers: int) -> Results:
    """
    Do the tasks as `Engine.run` says, in so many processes at most.

    :raises UserError: where this process uses a GPU, which its forks could not, and
        where workers would outlive it.
    :raises EngineFailed: when a worker was killed.
    """
    require_forks(n_workers)
    waiting = JobTasks(job, tasks)
    crew: list[_Fork] = []
    try:
        while waiting.read():
            idle = [fork for fork in crew if fork.task is None]
            n_more = min(len(waiting) - len(idle), n_workers - len(crew))
            new = [_Fork(job, 1 / n_workers) for _ in range(n_more)]
            crew += new
            for fork in idle + new:
                fork.give(waiting.take(fork.loaded, None, None))
            ready = wait([fork.pipe for fork in crew if fork.task is not None])
            for fork in crew:
                if fork.pipe in ready:
                    fork.hear(waiting)
                    waiting.move_bar(bar, crew)
            n_steps = sum(fork.n_steps for fork in crew)
            bar.set_postfix_str(f'{n_steps} {job.steps}', refresh=False)
            yield from waiting.finished()
        for fork in crew:
            job.on_close(fork.end())
    finally:
        for fork in crew:
            fork.process.terminate()
        for fork in crew:
            fork.kill()


def require_forks(n_workers: int) -> None:
    """
    Refuse workers that cannot be forked from this process, or would outlive it.
    """
    torch = sys.modules.get('torch')
    if torch is not None and torch.cuda.is_initialized():
        raise UserError(
            f'--workers {n_workers}: models are on a GPU, which forked processes '
            'cannot share; --no-cuda, --workers 1 or --engine ray would do'
        )
    if sys.platform != 'linux':
        raise UserError('--workers above 1 needs Linux; --engine ray would do')


class _Fork(AssignedWorker):
    """
    A worker that is a fork of this process.
    """

    def __init__(self, job: Job, share: float):
        context = get_context('fork')
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_be_worker, args=(theirs, job, share, os.getpid()), daemon=True
        )
        self.process.start()
        theirs.close()  # so that the pipe ends with the worker
        self.n_steps = 0

    def give(self, task: Task | None) -> None:
        """
        Let the worker do a task, if there is one.
        """
        self.task = task
        if task is not None:
            with suppress(BrokenPipeError):  # its end is heard of next
                self.pipe.send((task.data, task.size))

    def hear(self, waiting: JobTasks) -> None:
        """
        Take what the worker says next: how far it is, or the result.
        """
        told = self._receive()
        if isinstance(told, Done):
            waiting.finish(self, told)
        else:
            self.finished, n_steps = told
            self.n_steps += n_steps

    def end(self) -> Any:
        """
        Return what the worker tells at the end of the job.
        """
        with suppress(BrokenPipeError):
            self.pipe.send(None)
        last = self._receive()
        self.process.join(STOP_SECONDS)
        return last

    def kill(self) -> None:
        """
        Kill the worker, unless it ends in time.
        """
        self.process.join(STOP_SECONDS)
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def _receive(self) -> Any:
        try:
            told = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            self.process.join()
            raise EngineFailed(
                f'{self.task.name if self.task else "the end"}: its worker process '
                f'ended (exit code {self.process.exitcode}; -9: killed, or out of '
                'memory); what is written stays, and the same command goes on from '
                'there; with --workers 1 it then names the system that was at work'
            ) from None
        if isinstance(told, UserError):
            raise told
        if isinstance(told, Exception):
            raise error_of_worker(told, 'a worker process')
        return told


def _be_worker(pipe: Connection, job: Job, share: float, parent: int) -> None:
    """
    Do tasks until there are none.

    :param parent: the process that gives them.
    """
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    os.environ.update(ONE_THREAD)
    if torch := sys.modules.get('torch'):
        torch.set_num_threads(1)
    hide_bars()  # of libraries; the parent has the bar of the job
    tqdm.set_lock(RLock())  # a worker that is killed would keep the parent's
    host = Host(tell=pipe.send)
    with suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        begun = host.begin(job.key, job.elsewhere, share)
        while asked := pipe.recv():
            failed = isinstance(begun, Exception)
            data, size = asked
            pipe.send(begun if failed else host.work(data, size, job.whole_tasks))
        pipe.send(host.end())


# --- the engine of this machine -------------------------------------------------------
# Runs tasks on this machine: in this process, or in processes forked from it.

WORTH = 100  # size of a job's tasks for which a second process is worth its start


class LocalEngine:
    """
    Runs tasks in this process, in their order, or in processes forked from it.

    :param workers: processes; `None`: one a core where a job is small, and large
        enough for that to be worth it, else this process alone.
    """

    def __init__(self, workers: int | None = 1):
        self.workers = workers

    def run(self, job: Job, tasks: Iterable[Task], bar: Bar) -> Results:
        """
        Do the tasks as `Engine.run` says.
        """
        n_workers = self.workers or 1
        if isinstance(tasks, Sequence):
            work = sum(task.size for task in tasks)
            if self.workers is None and job.small and work >= WORTH:
                n_workers = n_cores()
            n_workers = min(n_workers, len(tasks))
        if n_workers > 1:
            yield from run_in_forks(job, tasks, bar, n_workers)
            return
        worker = job.here()
        parts = PartProgress(bar, job.steps, job.whole_tasks)
        try:
            for task in tasks:
                parts.begin(task.size)
                result = worker.work(task.data, parts.tell)
                parts.end()
                yield task, result
        finally:
            job.on_close(worker.close())


LOCAL = LocalEngine()


def n_cores() -> int:
    """
    Return how many cores this process may use; 1 where it cannot safely be forked.
    """
    return len(os.sched_getaffinity(0)) if sys.platform == 'linux' else 1
