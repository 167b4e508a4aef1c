"""
Runs tasks on this machine: in this process, or in processes forked from it.
"""

import os
import sys
from collections.abc import Iterable, Sequence

from parlai_ext.engines.engine import Job, Results, Task
from parlai_ext.view.progress import Bar, PartProgress

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
            from parlai_ext.engines.host import run_in_forks

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
