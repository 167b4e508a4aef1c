"""
Work in a forked process: it starts at once with all libraries loaded, may hang, crash
or take all memory, and is ended at its deadline.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

CRASHED = 70  # the exit code of work that raised: what a traceback tells elsewhere


@dataclass(frozen=True)
class Ended:
    """
    How a forked process ended.

    :param code: its exit code, negative for a signal; `None`: killed at its deadline.
    :param output: what it wrote to standard output and standard error.
    :param memory: bytes that it had at most, its libraries among them.
    """

    code: int | None
    output: str
    seconds: float
    memory: int


def run_forked(
    work: Callable[[], object],
    log: Path,
    deadline: float,
    memory: int | None = None,
) -> Ended:
    """
    Do work in a forked process and return how it ended. Processes that it started are
    killed with it.

    :param log: takes the output.
    :param deadline: seconds.
    :param memory: bytes that it may take besides what the process has now.
    """
    begin = time.monotonic()
    pid = os.fork()
    if not pid:
        _work(work, log, memory)
    handle = os.pidfd_open(pid)
    in_time = bool(select.select([handle], [], [], deadline)[0])
    os.close(handle)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    _kill_group(pid)
    return Ended(
        os.waitstatus_to_exitcode(status) if in_time else None,
        log.read_bytes().decode('utf-8', 'backslashreplace'),
        time.monotonic() - begin,
        used.ru_maxrss * 1024,
    )


def _work(work: Callable[[], object], log: Path, memory: int | None) -> None:
    code = CRASHED
    try:
        os.setsid()
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        for handler in logging.getLogger().handlers:  # of an earlier part, to elsewhere
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(sys.stderr)
        if memory is not None:
            limit = _mapped() + memory
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _stream(number: int) -> TextIO:
    return os.fdopen(number, 'w', encoding='utf-8', closefd=False, buffering=1)


def _mapped() -> int:
    return int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()
