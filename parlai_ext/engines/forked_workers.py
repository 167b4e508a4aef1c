"""
Runs tasks in processes that are forked from this one, with one thread each.

A fork starts in milliseconds, with everything imported, and shares the models that are
loaded here. It is made when a task waits for it, and dies with this process.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from threading import RLock
from typing import Any

from tqdm import tqdm

from parlai_ext.core.errors import UserError
from parlai_ext.engines.engine import EngineFailed, Job, Results, Task
from parlai_ext.engines.host import Done, Failure, Host, JobTasks
from parlai_ext.store.atomic import name_writer
from parlai_ext.view.progress import Bar, hide_bars

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
    torch = sys.modules.get('torch')
    if torch is not None and torch.cuda.is_initialized():
        raise UserError(
            f'--workers {n_workers}: models are on a GPU, which forked processes '
            'cannot share; --no-cuda, --workers 1 or --engine ray would do'
        )
    if sys.platform != 'linux':
        raise UserError('--workers above 1 needs Linux; --engine ray would do')
    waiting = JobTasks(job, tasks)
    crew: list[_Fork] = []
    try:
        while waiting.read():
            n_idle = sum(fork.task is None for fork in crew)
            n_more = min(len(waiting) - n_idle, n_workers - len(crew))
            crew += [_Fork(job, 1 / n_workers) for _ in range(n_more)]
            for fork in crew:
                if fork.task is None and (
                    taken := waiting.take(fork.loaded, None, None)
                ):
                    fork.give(*taken)
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
        self.number = self._shown = self.n_steps = 0
        self.loaded: tuple[str, ...] = ()

    def give(self, number: int, task: Task) -> None:
        """
        Let the worker do a task.
        """
        self.number, self.task, self._shown = number, task, 0
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
            self.task, self.loaded = None, tuple(told.loaded)
            waiting.finish(self.number, task, told.result)

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
        if isinstance(told, Failure):
            if told.kind == 'user':
                raise UserError(told.line)
            raise told.exception('a worker process')
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
    name_writer(str(os.getpid()))
    host = Host(tell=pipe.send)
    with suppress(KeyboardInterrupt, EOFError, BrokenPipeError):
        begun = host.begin(job.key, job.elsewhere, share)
        while asked := pipe.recv():
            failed = isinstance(begun, Failure)
            data, size = asked
            pipe.send(
                begun if failed else host.work(data, size, job.steps, job.whole_tasks)
            )
        pipe.send(host.end())
