"""
Engines: an engine gives tasks to workers and yields what they return. There are the
engine of this machine, with its forks, and that of a Ray cluster.

An engine knows nothing of dialogue. What a task is and what a worker does is said by
the job; where the worker runs is the engine's choice. The process of a worker, here or
on another machine, checks that it may take part, does tasks, and tells how far it is;
workers of other machines prove that they see the folder of the run.

Ray, which only calls the methods of `Host`, is imported where its engine is used.
"""

import ctypes
import fcntl
import hashlib
import os
import platform
import secrets
import signal
import socket
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
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from tqdm import tqdm

from parlai_ext.core import (
    UserError,
    first_line,
    frozen,
    logger,
    shortened,
    without_secrets,
)
from parlai_ext.engines.machine import SHARE_FOR_WEIGHTS, Machine
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


# --- the code that runs here, and its versions ----------------------------------------

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


# --- a Ray cluster --------------------------------------------------------------------
# Runs tasks on the machines of a Ray cluster: a worker for each GPU, or for some cores.
#
# A worker that is lost, with its process, its machine or the way to it, loses its task
# to another one. What tasks write must therefore be the same whoever does them, and be
# safe to write twice.

GPU_MEMORY = 'gpu_memory'  # GB of all GPUs of a node, which its `ray start` declares


@frozen
class Place:
    """
    A place for one worker.

    :param node: Ray's id of the node; `host` is its name or address.
    :param slot: counts the places of a node.
    :param share: of the memory of its device that the worker may use, from 0 to 1.
    """

    node: str
    host: str
    slot: int
    gpus: float
    share: float


def places(
    nodes: Iterable[Mapping[str, Any]], cpus: int, machine: Machine
) -> list[Place]:
    """
    Return the places that a cluster has for workers.

    Where a node has GPUs, workers are placed on GPUs only: one for each, or as many as
    the declared memory of a GPU holds. Else each has a node's cores to itself.

    :param nodes: as ``ray.nodes()`` returns them.
    :param cpus: cores of a worker.
    :param machine: `no_cuda` leaves GPUs alone; `max_gpu_memory` decides how many GB of
        a GPU a worker takes (`None`: a whole GPU), and a node that declares less for
        each of its GPUs has no place.
    """
    limit = machine.max_gpu_memory
    needed = None if limit is None else limit / SHARE_FOR_WEIGHTS
    alive = [node for node in nodes if node.get('Alive')]
    has_gpus = any(node['Resources'].get('GPU') for node in alive)
    gpus = has_gpus and not machine.no_cuda
    found = []
    for node in alive:
        have = node['Resources']
        n_places = on_device = int(have.get('CPU', 0) // cpus)
        if gpus:
            n_gpus, on_device = int(have.get('GPU', 0)), 1
            declared = have.get(GPU_MEMORY)  # of all GPUs of the node
            if n_gpus and declared is not None and needed is not None:
                on_device = int(declared / n_gpus // needed)
            n_places = min(n_places, n_gpus * on_device)
        share = 1 / max(1, on_device)
        host = str(node.get('NodeManagerHostname') or node.get('NodeManagerAddress'))
        found += [
            Place(node['NodeID'], host, slot, share if gpus else 0.0, share)
            for slot in range(n_places)
        ]
    return found


TRIES = 3  # of a task, and of starting a worker at a place
SIGN_SECONDS = 2.0  # between two signs of life
LOOK_SECONDS = 5.0  # between two looks for new machines
WAITS = 10  # patiences without any worker
CONNECT_SECONDS = 10.0
SIGNS = 'signs'
INSTALL = (
    '--engine ray needs Ray, which is not installed here: '
    "pip install 'parlai_ext[ray]', the same version on all machines"
)


@dataclass
class _Hand(AssignedWorker):
    """
    A worker somewhere in the cluster.

    :param reply: of what it was asked last: to begin, or to work.
    :param stage: what that was; '' when nothing is asked of it.
    :param key: of the job that it was last asked to begin, which may be an earlier job
        than the one that hears the reply.
    :param has_begun: it was a worker of some job.
    :param seen: when it last gave a sign of life; `None`: not yet.
    """

    place: Place
    actor: Any
    reply: Any = None
    stage: str = ''
    key: str | None = None
    has_begun: bool = False
    budget: int | None = None
    sign: Any = None
    asked_at: float = 0.0
    seen: float | None = None

    @property
    def name(self) -> str:
        return f'the worker on {self.place.host}'


@dataclass
class RayEngine:
    """
    Runs tasks on the cluster that this process is `connected` to.

    :param folder: is written to by the workers, which must all see it.
    :param cpus: cores, and threads, of each worker.
    :param patience: seconds without a sign of life after which a worker is lost.
    """

    folder: Path
    cpus: int
    patience: float
    machine: Machine

    def __post_init__(self) -> None:
        self.hands: list[_Hand] = []  # all workers, from job to job
        self.failed_starts = Counter[Place]()
        self._looked_at = float('-inf')

    def run(self, job: Job, tasks: Iterable[Task], bar: Bar) -> Results:
        """
        Do the tasks as `Engine.run` says.
        """
        import ray

        with token_in(self.folder) as token:
            run = _JobRun(self, job, tasks, token, bar)
            try:
                yield from run.results()
            except BaseException:
                self.dismiss()  # workers at work are not waited for
                raise
            # let the workers of the job end it, and pass on what they tell
            ends = {
                hand.actor.end.remote(): hand
                for hand in self.hands
                if hand.key == job.key and not hand.stage
            }
            done = _replies(ends, self.patience)
            for reply, hand in ends.items():
                if reply not in done:
                    self.lose(hand)
                    continue
                hand.key = None
                try:
                    job.on_close(ray.get(reply))
                except ray.exceptions.RayError:
                    self.lose(hand)

    def places(self) -> list[Place]:
        """
        Return the places for workers that the cluster has now.
        """
        import ray

        return places(ray.nodes(), self.cpus, self.machine)

    def look_for_places(self) -> None:
        """
        Start a worker at each place that has none.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        taken = {hand.place for hand in self.hands}
        for place in self.places():
            if place in taken or self.failed_starts[place] >= TRIES:
                continue
            actor = ray.remote(
                num_cpus=self.cpus,
                num_gpus=place.gpus,
                max_restarts=0,
                max_task_retries=0,
                concurrency_groups={SIGNS: 1},
                scheduling_strategy=NodeAffinitySchedulingStrategy(
                    place.node, soft=False
                ),
            )(Host)
            self.hands.append(_Hand(place, actor.remote()))

    def lose(self, hand: _Hand) -> None:
        """
        Give a worker up.
        """
        import ray

        if not hand.has_begun:
            self.failed_starts[hand.place] += 1
        self.hands.remove(hand)
        with suppress(Exception):
            ray.kill(hand.actor, no_restart=True)

    def dismiss(self) -> None:
        """
        End all workers at once.
        """
        for hand in list(self.hands):
            self.lose(hand)

    @contextmanager
    def connected(self, address: str) -> Iterator[None]:
        """
        Be a driver of a cluster, without Ray's usage reports; at the end, end the
        workers and leave it.

        :param address: ``HOST:PORT`` of the cluster, or ``auto``.
        :raises UserError: when Ray is not installed, or no cluster is there.
        """
        if find_spec('ray') is None:
            raise UserError(INSTALL)
        _check_address(address)
        os.environ['RAY_USAGE_STATS_ENABLED'] = '0'
        import ray

        try:
            with _own_signals():
                ray.init(
                    address=address,
                    log_to_driver=False,
                    configure_logging=False,
                    namespace='parlai_ext',
                )
        except Exception as error:  # Ray raises many kinds
            with suppress(Exception), _own_signals():
                ray.shutdown()
            raise UserError(
                f'--ray-address {address}: {shortened(str(error))}'
            ) from None
        try:
            yield
        finally:
            with _own_signals():
                self.dismiss()
                ray.shutdown()


@dataclass
class _JobRun:
    """
    One job while it runs.
    """

    engine: RayEngine
    job: Job
    tasks: Iterable[Task]
    token: Path
    bar: Bar

    def __post_init__(self) -> None:
        self.waiting = JobTasks(self.job, self.tasks)
        self.losses = Counter[int]()
        self._last_hand_at = time.monotonic()
        self._warned = False

    def results(self) -> Iterator[tuple[Task, Any]]:
        """
        Yield each task with its result.
        """
        import ray

        while self.waiting.read():
            self.engine.look_for_places()
            self._assign()
            # wait for a reply, for some seconds at most, and take what has come
            hands = self.engine.hands
            asked = {hand.reply: hand for hand in hands if hand.stage}
            if asked:
                ray.wait(list(asked), num_returns=1, timeout=SIGN_SECONDS / 2)
                for reply in _replies(asked, 0):
                    self._take(asked[reply], reply)
            else:
                time.sleep(SIGN_SECONDS / 2)
            self._take_signs()
            self._check_that_somebody_works()
            self.waiting.move_bar(self.bar, hands)
            yield from self.waiting.finished()

    def _assign(self) -> None:
        """
        Ask idle workers to begin, or to do a task.
        """
        job, hands = self.job, self.engine.hands
        budgets = [hand.budget for hand in hands if hand.key == job.key]
        largest = max((b for b in budgets if b is not None), default=None)
        for hand in hands:
            if hand.stage:
                continue
            if hand.key != job.key:
                hand.key, hand.budget, hand.loaded = job.key, None, ()
                origin = os.getcwd(), self.token, code_facts()
                share = hand.place.share
                self._ask(hand, 'begin', job.key, job.elsewhere, share, origin)
            elif task := self.waiting.take(hand.loaded, hand.budget, largest):
                hand.task = task
                self._ask(hand, 'work', task.data, task.size, job.whole_tasks)

    def _ask(self, hand: _Hand, stage: str, *given: Any) -> None:
        """
        Ask a worker to do a method of `Host`.
        """
        hand.stage, hand.reply = stage, getattr(hand.actor, stage).remote(*given)
        if hand.seen is not None:
            hand.seen = time.monotonic()

    def _take(self, hand: _Hand, reply: Any) -> None:
        """
        Take a reply of a worker.
        """
        import ray

        stage, hand.stage, hand.reply = hand.stage, '', None
        try:
            answer = ray.get(reply)
        except ray.exceptions.RayTaskError as error:
            raise RuntimeError(f'{hand.name}: {first_line(error)}') from None
        except ray.exceptions.RayError as error:
            why = shortened(str(error), 160)
            kinds = 'ModuleNotFoundError', 'ImportError'
            lines = str(error).split('\n')
            imports = [line for line in lines if any(kind in line for kind in kinds)]
            if imports:
                why = imports[0].strip()
            self._lost(hand, why)
            return
        hand.seen = time.monotonic()
        if isinstance(answer, Exception):
            raise error_of_worker(answer, hand.name, starting=stage != 'work')
        if stage == 'begin':
            hand.has_begun, hand.budget = True, answer
        elif isinstance(answer, Done) and hand.task is not None:
            self.waiting.finish(hand, answer)

    def _lost(self, hand: _Hand, reason: str) -> None:
        """
        Give up a worker; its task waits for another one.

        :raises UserError: when the task, or the start of workers, has failed too often.
        """
        self.engine.lose(hand)
        task, hand.task = hand.task, None
        logger.warning('%s is lost: %s', hand.name, reason)
        if task is None:
            started = any(other.has_begun for other in self.engine.hands)
            if self.engine.failed_starts[hand.place] >= TRIES and not started:
                raise EngineFailed(f'{hand.name} cannot be started: {reason}')
            return
        self.waiting.give_back(task)
        self.losses[task.number] += 1
        if self.losses[task.number] >= TRIES:
            raise EngineFailed(
                f'{task.name}: {TRIES} workers were lost while they worked on it, the '
                f'last on {hand.place.host} ({reason}); what is written stays, and the '
                'same command goes on from there, with or without --engine ray'
            )

    def _take_signs(self) -> None:
        """
        Ask workers for signs of life, and give up those that gave none for too long.
        """
        import ray

        now = time.monotonic()
        asked = {hand.sign: hand for hand in self.engine.hands if hand.sign is not None}
        for sign in _replies(asked, 0):
            hand = asked[sign]
            hand.sign = None
            with suppress(ray.exceptions.RayError):  # its reply will say the same
                n = ray.get(sign)
                hand.seen = now
                hand.finished = n if hand.task is not None else 0
        for hand in list(self.engine.hands):
            if hand.sign is None and now - hand.asked_at >= SIGN_SECONDS:
                hand.sign = hand.actor.sign.options(concurrency_group=SIGNS).remote()
                hand.asked_at = now
            elif hand.seen is not None and now - hand.seen > self.engine.patience:
                self._lost(hand, f'no sign of life for {now - hand.seen:.0f} s')

    def _check_that_somebody_works(self) -> None:
        """
        Refuse to wait for ever for a first worker, or for another one.
        """
        now, patience = time.monotonic(), self.engine.patience
        if any(hand.seen is not None for hand in self.engine.hands):
            self._last_hand_at, self._warned = now, False
        waited = now - self._last_hand_at
        if waited <= (WAITS * patience if self._warned else patience):
            return
        hosts = ', '.join(sorted({place.host for place in self.engine.places()}))
        what = (
            f'no machine of the cluster has {self.engine.cpus} cores, and a GPU where '
            'others have one, for a worker'
        )
        if hosts:
            what = f'the cluster ({hosts}) starts none; `ray status` says what is taken'
        why = f'no worker for {waited:.0f} s: {what}'
        if not self._warned:
            self._warned = True
            logger.warning('%s', why)
        if waited > WAITS * patience:
            raise EngineFailed(
                f'{why}; what is written stays, and the same command goes on from there'
            )


def _replies(asked: Mapping[Any, _Hand], seconds: float) -> list[Any]:
    """
    Return those of the awaited replies that have come within some seconds.
    """
    import ray

    if not asked:
        return []
    done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=seconds)
    return list(done)


@contextmanager
def _own_signals() -> Iterator[None]:
    """
    Keep the handlers of signals, which Ray changes.
    """
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        with suppress(ValueError):  # not the main thread
            for one, handler in handlers.items():
                signal.signal(one, handler)


def _check_address(address: str) -> None:
    """
    Refuse an address where nobody listens; Ray itself would wait long.
    """
    if address == 'auto':
        return
    host, _, port = address.rpartition(':')
    if '://' in address or not host or not port.isdigit():
        raise UserError(
            f'--ray-address {address}: HOST:PORT, or auto, is expected; the command '
            'runs on a machine of the cluster'
        )
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise UserError(
            f'--ray-address {address}: cannot be reached ({error.strerror or error}); '
            '`ray start --head` prints the address'
        ) from None
