"""
The tasks that wait for a worker, and which of them a worker does next.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from parlai_ext.engines.engine import Job, Task

Group = frozenset[str]


class WaitingTasks:
    """
    Tasks by the weights that they need. A worker is given a task for which it has to
    load the fewest bytes; among equals one that no other worker is busy with, then the
    first in the order of the tasks.
    """

    def __init__(self) -> None:
        self._groups: dict[Group, list[tuple[int, Task]]] = {}
        self._busy: Counter[Group] = Counter()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def add(self, number: int, task: Task) -> None:
        """
        Add a task; its number says where it stands in the order of the tasks.
        """
        group = self._groups.setdefault(frozenset(task.weights), [])
        heapq.heappush(group, (number, task))

    def take(
        self, loaded: Collection[str], budget: int | None, largest: int | None
    ) -> tuple[int, Task] | None:
        """
        Remove and return number and task for a worker; `None` if it should wait.

        :param loaded: the weights that the worker has loaded.
        :param budget: bytes of weights that it may load; tasks that need more are left
            to others.
        :param largest: the budget of the worker that may load most: tasks that need
            more still are left to it.
        """
        fitting = [
            group
            for group in self._groups
            if _fits(self._groups[group][0][1], budget, largest)
        ]
        if not fitting:
            return None
        group = min(fitting, key=lambda one: self._rank(one, loaded))
        number, task = heapq.heappop(self._groups[group])
        if not self._groups[group]:
            del self._groups[group]
        self._busy[group] += 1
        return number, task

    def done(self, task: Task) -> None:
        """
        Note that no worker is busy with a task any more.
        """
        self._busy[frozenset(task.weights)] -= 1

    def _rank(self, group: Group, loaded: Collection[str]) -> tuple[int, int, int]:
        number, task = self._groups[group][0]
        to_load = sum(task.weights[name] for name in group if name not in loaded)
        return to_load, self._busy[group], number


class JobTasks(WaitingTasks):
    """
    The tasks of a job, read as far ahead as it says, and their results.

    An error while tasks are made waits until the tasks before it are done, as it does
    where they are done one after the other.
    """

    def __init__(self, job: Job, tasks: Iterable[Task]) -> None:
        super().__init__()
        self._job = job
        self._tasks = iter(tasks)
        self._n_read = self._n_yielded = 0
        self._results: dict[int, tuple[Task, Any]] = {}
        self._error: Exception | None = None

    def read(self) -> bool:
        """
        Read tasks; return whether results are still to come.
        """
        limit = self._job.lookahead
        while self._error is None and (
            limit is None or self._n_read - self._n_yielded < limit
        ):
            try:
                task = next(self._tasks, None)
            except Exception as error:
                self._error = error
                break
            if task is None:
                break
            self.add(self._n_read, task)
            self._n_read += 1
        if self._n_yielded < self._n_read:
            return True
        if self._error is not None:
            raise self._error
        return False

    def finish(self, number: int, task: Task, result: Any) -> None:
        """
        Take the result of a task.
        """
        self.done(task)
        self._results[number] = task, result

    def finished(self) -> Iterator[tuple[Task, Any]]:
        """
        Yield what is finished and may be yielded now.
        """
        ready = self._results
        numbers = list(ready)
        if self._job.in_order:
            numbers = []
            while self._n_yielded + len(numbers) in ready:
                numbers.append(self._n_yielded + len(numbers))
        for number in numbers:
            self._n_yielded += 1
            yield ready.pop(number)


def _fits(task: Task, budget: int | None, largest: int | None) -> bool:
    size = sum(task.weights.values())
    if budget is None or size <= budget:
        return True
    return largest is not None and size > largest and budget == largest
