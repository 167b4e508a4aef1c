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
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from parlai_ext.commands.signals import SIGNALS, end_in_one_line
from parlai_ext.view.progress import Bar

CRASHED = 70  # the exit code of work that raised: what a traceback tells elsewhere
DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


class Forked:
    """
    A forked process that does work.

    :param log: takes what it prints.
    :param limit: bytes that it may take besides what this process has now.
    """

    def __init__(self, work: Callable[[], object], log: Path, limit: int | None = None):
        self.log = log
        self.code: int | None = None  # negative for a signal; `None`: it has not ended
        self.memory = 0  # bytes that it had at most, its libraries among them
        log.touch()  # a signal may come before the child opens it
        # no signal that can wait comes before the child has said what it does at one
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.pid = os.fork()
        if not self.pid:
            _work(work, log, limit)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def send(self, number: int) -> None:
        """
        Send a signal; one to a process that has ended is nothing.
        """
        os.kill(self.pid, number)

    def wait(self, seconds: float | None = None) -> int | None:
        """
        Return the exit code; `None` if it has not ended by then. Processes that it
        started are killed at its end.
        """
        handle = os.pidfd_open(self.pid)
        in_time = bool(select.select([handle], [], [], seconds)[0])
        os.close(handle)
        if not in_time:
            return None
        _, status, used = os.wait4(self.pid, 0)
        self.memory = used.ru_maxrss * 1024
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait_or_kill(self, seconds: float) -> int | None:
        """
        Return the same; what has not ended by then is killed.
        """
        code = self.wait(seconds)
        if code is None:
            self.send(signal.SIGKILL)
            self.wait()
            self.code = None
        return code

    @property
    def output(self) -> str:
        """
        What it has printed.
        """
        return self.log.read_bytes().decode('utf-8', 'backslashreplace')

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
    work: Callable[[], object], log: Path, deadline: float, limit: int | None = None
) -> Forked:
    """
    Do work in a forked process that is killed after ``deadline`` seconds.
    """
    child = Forked(work, log, limit)
    child.wait_or_kill(deadline)
    return child


def _work(work: Callable[[], object], log: Path, limit: int | None) -> NoReturn:
    code = CRASHED
    try:
        os.setsid()
        # that of its parent is one for all processes: who is killed with it keeps it
        for bar in (tqdm, Bar):
            bar.set_lock(threading.RLock())
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, 'stdout'), (2, 'stderr')):
            os.dup2(file, number)
            stream = os.fdopen(number, 'w', 1, encoding='utf-8', closefd=False)
            setattr(sys, name, stream)
        for handler in logging.getLogger().handlers:  # of an earlier part, to elsewhere
            if isinstance(handler, logging.StreamHandler):
                handler.setStream(sys.stderr)
        end_in_one_line()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if limit is not None:
            pages = int(Path('/proc/self/statm').read_text().split()[0])
            bound = pages * resource.getpagesize() + limit
            resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
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
