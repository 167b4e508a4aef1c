"""
The process of a worker, here or on another machine: it checks that it may take part,
does tasks, and tells how far it is. The engine of this machine, and its forks.

Nothing here imports Ray, which only calls the methods of `Host`.
"""

import ctypes
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import RLock
from typing import Any

from tqdm import tqdm

from parlai_ext.core import UserError, first_line, frozen, without_secrets
from parlai_ext.engines.engine import (
    EngineFailed,
    Job,
    Results,
    Task,
    Worker,
    WorkerDiffers,
    code_facts,
    refuse_difference,
)
from parlai_ext.view.progress import Bar, PartProgress, hide_bars


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
                folder, token, facts = origin
                if os.path.isdir(folder):  # so that relative paths mean the same
                    os.chdir(folder)
                if not token.is_file():
                    raise WorkerDiffers(
                        f'it does not see {token.parent}: that folder must be on '
                        'storage that all machines share, under the same path'
                    )
                here = code_facts()
                for what, value in facts.items():
                    refuse_difference(what, here.get(what), value)
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
            result = self.worker.work(data, tell)
            return Done(result, tuple(self.worker.loaded()))
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


class JobTasks:
    """
    The tasks of a job, read as far ahead as it says, and their results.

    A worker is given a task for which it has to load the fewest bytes; among equals one
    whose weights no other worker is busy with, then the first in the order of the
    tasks. An error while tasks are made waits until the tasks before it are done, as it
    does where they are done one after the other.
    """

    def __init__(self, job: Job, tasks: Iterable[Task]) -> None:
        self._waiting: dict[int, Task] = {}  # by their numbers
        self._busy: Counter[frozenset[str]] = Counter()  # workers, by what is loaded
        self._job = job
        self._tasks = iter(tasks)
        self._n_read = self._n_yielded = 0
        self._results: dict[int, tuple[Task, Any]] = {}
        self._error: Exception | None = None

    def __len__(self) -> int:
        return len(self._waiting)

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

        best = min(filter(may_do, self._waiting.values()), key=cost, default=None)
        if best is not None:
            del self._waiting[best.number]
            self._busy[frozenset(best.weights)] += 1
        return best

    def give_back(self, task: Task) -> None:
        """
        Let a task that a worker was given wait for another one.
        """
        self._busy[frozenset(task.weights)] -= 1
        self._waiting[task.number] = task

    def read(self) -> bool:
        """
        Read tasks; return whether results are still to come.
        """
        limit = self._job.lookahead
        while self._error is None and (
            limit is None or self._n_read - self._n_yielded < limit
        ):
            try:
                task = replace(next(self._tasks), number=self._n_read)
            except StopIteration:
                break
            except Exception as error:
                self._error = error
                break
            self._waiting[self._n_read] = task
            self._n_read += 1
        if self._n_yielded < self._n_read:
            return True
        if self._error is not None:
            raise self._error
        return False

    def finish(self, task: Task, result: Any) -> None:
        """
        Take the result of a task.
        """
        self._busy[frozenset(task.weights)] -= 1
        self._results[task.number] = task, result

    def finished(self) -> Iterator[tuple[Task, Any]]:
        """
        Yield what is finished and may be yielded now.
        """
        in_order = self._job.in_order
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
            n_idle = sum(fork.task is None for fork in crew)
            n_more = min(len(waiting) - n_idle, n_workers - len(crew))
            crew += [_Fork(job, 1 / n_workers) for _ in range(n_more)]
            for fork in crew:
                if fork.task is None:
                    fork.give(waiting.take(fork.loaded, None, None))
            ready = wait([fork.pipe for fork in crew if fork.task is not None])
            for fork in crew:
                if fork.pipe in ready:
                    fork.hear(waiting, bar)
            n_steps = sum(fork.n_steps for fork in crew)
            bar.set_postfix_str(f'{n_steps} {job.steps}', refresh=False)
            yield from waiting.finished()
        for fork in crew:
            job.on_close(fork.end())
    finally:
        for fork in crew:
            fork.process.terminate()
        for fork in crew:
            fork.process.join(STOP_SECONDS)
            fork.process.kill()
            fork.process.join()
            fork.pipe.close()


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


class _Fork:
    """
    A worker as this process knows it, and the task that it does.
    """

    def __init__(self, job: Job, share: float):
        context = get_context('fork')
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=_be_worker, args=(theirs, job, share, os.getpid()), daemon=True
        )
        self.process.start()
        theirs.close()  # so that the pipe ends with the worker
        self.task: Task | None = None
        self._shown = self.n_steps = 0
        self.loaded: Collection[str] = ()

    def give(self, task: Task | None) -> None:
        """
        Let the worker do a task, if there is one.
        """
        self.task, self._shown = task, 0
        if task is not None:
            with suppress(BrokenPipeError):  # its end is heard of next
                self.pipe.send((task.data, task.size))

    def hear(self, waiting: JobTasks, bar: Bar) -> None:
        """
        Take what the worker says next: how far it is, or the result.
        """
        task, told = self.task, self._receive()
        assert task is not None
        n_done, n_steps = (task.size, 0) if isinstance(told, Done) else told
        n_done = min(n_done, task.size)
        self.n_steps += n_steps
        bar.update(n_done - self._shown)
        self._shown = n_done
        if isinstance(told, Done):
            self.task, self.loaded = None, told.loaded
            waiting.finish(task, told.result)

    def end(self) -> Any:
        """
        Return what the worker tells at the end of the job.
        """
        with suppress(BrokenPipeError):
            self.pipe.send(None)
        last = self._receive()
        self.process.join(STOP_SECONDS)
        return last

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
