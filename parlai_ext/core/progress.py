"""
The progress bar of a stage, which a job's log file can hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm


def count_reads(bar: tqdm[Any]) -> Callable[[int], None]:
    """
    Return a function that adds to the number of contexts that a progress bar shows as
    read by a model.
    """
    n_read = 0

    def add(n: int) -> None:
        nonlocal n_read
        n_read += n
        bar.set_postfix_str(f'{n_read} contexts read', refresh=False)
        bar.update(0)

    return add


def bar_of(
    stage: str,
    total: int | None,
    progress: bool = True,
    delay: float = 0,
    unit: str = 'dialogue',
) -> tqdm[Any]:
    """
    Return a progress bar; in a log file it prints a line every half minute.

    ``update(0)`` shows a new postfix when it is time.

    :param total: `None` when it is not known before the end.
    :param delay: seconds before it is shown at all; most runs are read in less.
    """
    return tqdm(
        total=total,
        desc=stage,
        unit=unit,
        disable=not progress or total == 0,
        mininterval=0.5 if sys.stderr.isatty() else 30,
        miniters=0,
        delay=delay,
    )


def byte_bar(what: str, total: int | None, *, start: int = 0, shown: bool) -> tqdm[Any]:
    """
    Return the progress bar of a download, in bytes.

    :param start: bytes that are here already.
    """
    return tqdm(
        desc=what,
        total=total,
        initial=start,
        unit='B',
        unit_scale=True,
        unit_divisor=1024,
        disable=not shown,
        mininterval=0.5 if sys.stderr.isatty() else 10,
    )
