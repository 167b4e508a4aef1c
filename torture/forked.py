"""
Work in a forked process: it starts at once with all libraries loaded, may hang, crash
or take all memory, and is ended by a signal or at its deadline.
"""

import contextlib
import ctypes
import logging
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

from parlai_ext.commands.signals import SIGNALS, end_in_one_line

CRASHED = 70  # the exit code of work that raised: what a traceback tells elsewhere
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
# what changes files, before it is done
CHANGES = {'os.rename', 'os.remove', 'os.mkdir', 'os.rmdir', 'os.truncate', 'os.link'}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# the plug-in prepares ParlAI in the child, as in a process of its own
NOT_IMPORTED = ('parlai_internal', '__main__', 'torture')


class Forked:
    """
    A forked process that does work.

    :param log: takes what it prints.
    :param memory: bytes that it may take besides what this process has now.
    """

    def __init__(
        self, work: Callable[[], object], log: Path, memory: int | None = None
    ):
        self.log, self.memory = log, 0
        # no signal comes before the child has said what it does at one
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.pid = os.fork()
        if not self.pid:
            _work(work, log, memory)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def send(self, number: int) -> None:
        """
        Send a signal; one to a process that has ended is nothing.
        """
        os.kill(self.pid, number)

    def wait(self, seconds: float | None = None) -> int | None:
        """
        Return the exit code, negative for a signal; `None` if it has not ended by then.
        Processes that it started are killed at its end.
        """
        handle = os.pidfd_open(self.pid)
        in_time = bool(select.select([handle], [], [], seconds)[0])
        os.close(handle)
        if not in_time:
            return None
        _, status, used = os.wait4(self.pid, 0)
        self.memory = used.ru_maxrss * 1024  # at most, its libraries among it
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return os.waitstatus_to_exitcode(status)

    def wait_or_kill(self, seconds: float) -> int | None:
        """
        Return the same; what has not ended by then is killed.
        """
        code = self.wait(seconds)
        if code is None:
            self.send(signal.SIGKILL)
            self.wait()
        return code

    @property
    def output(self) -> str:
        """
        What it has printed.
        """
        return self.log.read_bytes().decode('utf-8', 'backslashreplace')


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

    def problem(self, deadline: float, memory: float) -> str:
        """
        Return what is wrong with the end of a command that had so much time and memory;
        '' if it ended by itself and without a traceback.
        """
        if self.code is None:
            return f'it did not end within {deadline:g} s'
        end = self.output[-300:]
        if self.code not in (0, 1):
            return f'exit code {self.code}: {end}'
        if 'Traceback' in self.output:
            return f'a traceback: {end}'
        return f'it took {self.memory / 1e9:.1f} GB' if self.memory > memory else ''


def run_forked(
    work: Callable[[], object],
    log: Path,
    deadline: float,
    memory: int | None = None,
) -> Ended:
    """
    Do work in a forked process and return how it ended.

    :param deadline: seconds.
    """
    begin = time.monotonic()
    child = Forked(work, log, memory)
    code = child.wait_or_kill(deadline)
    return Ended(code, child.output, time.monotonic() - begin, child.memory)


def _work(work: Callable[[], object], log: Path, memory: int | None) -> NoReturn:
    code = CRASHED
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for handle, place in (
            (os.open(os.devnull, os.O_RDONLY), 0),
            (file, 1),
            (file, 2),
        ):
            os.dup2(handle, place)
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        for handler in logging.getLogger().handlers:  # of an earlier part, to elsewhere
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(sys.stderr)
        end_in_one_line()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if memory is not None:
            pages = int(Path('/proc/self/statm').read_text().split()[0])
            limit = pages * resource.getpagesize() + memory
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


def _stream(number: int) -> TextIO:
    return os.fdopen(number, 'w', encoding='utf-8', closefd=False, buffering=1)


# ---- commands


def start_command(
    args: Sequence[str],
    folder: Path,
    log: Path,
    step: int | None = None,
    number: int = signal.SIGKILL,
) -> Forked:
    """
    Start a command of the `parlai` command line in a folder, from the first statement
    of its `main` on; only imports may have been done before it was born.

    :param log: takes its errors. Beside it are, at the end, the number of its changes
        of files (``.steps``) and the names of its modules (``.modules``).
    :param step: before its n-th change of a file there (0, 1, …), the command gets the
        signal ``number``.
    """

    def work() -> None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.chdir(folder)
        count = count_changes(f'{folder}/', step, number)
        status = run_main(args)
        log.with_suffix('.steps').write_text(str(count()))
        log.with_suffix('.modules').write_text('\n'.join(list(sys.modules)))
        sys.exit(status)

    return Forked(work, log)


def run_main(args: Sequence[str]) -> int:
    """
    Run the command line, as `python -m parlai_ext` does; return the exit code.
    """
    from parlai_ext.__main__ import main

    sys.argv = ['parlai_ext', *args]
    try:
        main(list(args))
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the plug-in's, by now
        return 1
    return 0


def count_changes(folder: str, step: int | None, number: int) -> Callable[[], int]:
    """
    From now on, count the changes of files in a folder; before the one with the number
    ``step``, send this process a signal. Return what tells the count.
    """
    count = 0

    def before_change(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in CHANGES and not (event == 'open' and args[2] & WRITES):
            return
        place = args[0]  # a number: an open file that is cut
        if isinstance(place, int) or os.path.abspath(os.fsdecode(place)).startswith(
            folder
        ):
            count += 1
            if count - 1 == step:
                os.kill(os.getpid(), number)

    sys.addaudithook(before_change)
    return lambda: count


def import_all(names: Sequence[str]) -> None:
    """
    Import the modules that a command has imported, as far as they can be.
    """
    for name in names:
        if not name.startswith(NOT_IMPORTED):
            with contextlib.suppress(Exception):
                __import__(name)
