"""
Many jobs at once on threads that nobody has to wait for.

`concurrent.futures` waits for its threads when the program ends, so that Ctrl-C would
last as long as the slowest endpoint. These threads end with the program.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Item = TypeVar('Item')
Result = TypeVar('Result')
# the index of an item, what became of it, and whether that is no exception
Done = queue.SimpleQueue[tuple[int, Any, bool]]


class Halted(Exception):
    """
    Another job failed, or the user has had enough.
    """


def run_all(
    job: Callable[[Item], Result],
    items: Sequence[Item],
    width: int,
    halt: threading.Event,
) -> list[Result]:
    """
    Return what ``job`` makes of each item, in their order.

    When one job raises, none is begun any more, those under way end, and it is raised
    here. Ctrl-C waits for nothing.

    :param halt: set when it is over early; jobs that wait should look at it.
    """
    todo = deque(enumerate(items))
    done: Done = queue.SimpleQueue()
    threads = [
        threading.Thread(target=_labour, args=(job, todo, done, halt), daemon=True)
        for _ in range(min(width, len(items)))
    ]
    for thread in threads:
        thread.start()
    found: dict[int, Result] = {}
    try:
        while len(found) < len(items):
            index, result, well = done.get()
            if not well:
                raise result
            found[index] = result
    except Exception:
        halt.set()
        for thread in threads:
            thread.join()
        raise
    finally:
        halt.set()
    return [found[i] for i in range(len(items))]


def _labour(
    job: Callable[[Item], Any],
    todo: deque[tuple[int, Item]],
    done: Done,
    halt: threading.Event,
) -> None:
    """
    Do one job after the other.
    """
    while not halt.is_set():
        try:
            index, item = todo.popleft()
        except IndexError:
            return
        try:
            done.put((index, job(item), True))
        except BaseException as error:
            done.put((index, error, False))
            halt.set()  # only now: those who are halted come later than the cause
