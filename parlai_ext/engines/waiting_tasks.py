"""
The tasks that wait for a worker, and which of them a worker does next.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection

from parlai_ext.engines.engine import Task

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


def _fits(task: Task, budget: int | None, largest: int | None) -> bool:
    size = sum(task.weights.values())
    if budget is None or size <= budget:
        return True
    return largest is not None and size > largest and budget == largest
