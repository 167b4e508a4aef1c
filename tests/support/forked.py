"""
Work in a forked process: it starts at once with all that is imported, may never end,
and is ended by a signal or at its deadline.
"""

import contextlib
import ctypes
import importlib
import logging
import os
import resource
import select
import signal
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from parlai_ext.commands.signals import SIGNALS, end_in_one_line
from parlai_ext.isolation.fork_server import DIES_WITH_PARENT, lower_limit
from parlai_ext.view.progress import Bar

CRASHED = 70  # the exit code of work that raised: what a traceback tells elsewhere
MOST_MEMORY = 8 * 2**30  # bytes that it may address besides what its parent has


class Forked:
    """
    A forked process that does work.

    :param log: takes what it prints.
    :param errors: takes its standard error, if that is to be another file.
    :param terminal: the number of an open terminal, which takes all that instead.
    :ivar code: its exit code, negative for a signal; `None` while it has not ended, and
        where it was killed at its deadline.
    :ivar memory: the bytes that it had at most, its libraries among them.
    """

    def __init__(self, work, log, errors=None, terminal=None):
        self.log, self.code, self.memory, self.ended = log, None, 0, False
        log.touch()  # a signal may come before the child opens it
        # no signal that can wait comes before the child has said what it does at one
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self.pid = os.fork()
        if not self.pid:
            _do(work, log, errors or log, terminal)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def send(self, number):
        """
        Send a signal; one to a process that has ended is nothing.
        """
        os.kill(self.pid, number)

    def wait(self, seconds=None):
        """
        Return the exit code; `None` if it has not ended by then. Processes that it
        started are killed at its end.
        """
        if self.ended:
            return self.code
        handle = os.pidfd_open(self.pid)
        in_time = select.select([handle], [], [], seconds)[0]
        os.close(handle)
        if not in_time:
            return None
        _, status, used = os.wait4(self.pid, 0)
        self.ended = True
        self.memory = used.ru_maxrss * 1024
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code

    def wait_or_kill(self, seconds):
        """
        Return the same; what has not ended by then is killed.
        """
        code = self.wait(seconds)
        if not self.ended:
            self.send(signal.SIGKILL)
            self.wait()
            self.code = None
        return code

    @property
    def output(self):
        """
        What it has printed.
        """
        return self.log.read_bytes().decode('utf-8', 'backslashreplace')


def _do(work, log, errors, terminal):
    code = CRASHED
    try:
        os.setsid()
        # that of its parent is one for all processes: who is killed with it keeps it
        for bar in (tqdm, Bar):
            bar.set_lock(threading.RLock())
        ctypes.CDLL(None).prctl(DIES_WITH_PARENT, signal.SIGKILL)
        os.dup2(terminal or os.open(os.devnull, os.O_RDONLY), 0)
        for number, name, path in ((1, 'stdout', log), (2, 'stderr', errors)):
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            os.dup2(terminal or os.open(path, flags, 0o600), number)
            stream = os.fdopen(number, 'w', 1, encoding='utf-8', closefd=False)
            setattr(sys, name, stream)
        for handler in logging.getLogger().handlers:  # of earlier work, to elsewhere
            if type(handler) is logging.StreamHandler:
                handler.setStream(sys.stderr)
        end_in_one_line()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        lower_limit(resource.RLIMIT_AS, pages * resource.getpagesize() + MOST_MEMORY)
        work()
        code = 0
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def run_main(main, args):
    """
    Run a command line's `main` as the program does, and return its exit code.
    """
    try:
        main([str(arg) for arg in args])
    except SystemExit as leaving:
        if leaving.code is None or isinstance(leaving.code, int):
            return leaving.code or 0
        print(leaving.code, file=sys.stderr)
        return 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # the plug-in's, by now
        return 1
    return 0


class Ended(NamedTuple):
    """
    Exit code and output of a command line.
    """

    code: int
    out: str
    errors: str


COMMANDS = ('parlai.scripts', 'parlai_internal')


def command_in_child(
    main, *args, path=(), forget=COMMANDS, encoding='utf-8', unencodable='strict'
):
    """
    Run a command line as another process would, in which nearly nothing has to be
    imported anew.

    :param path: folders that Python looks into first.
    :param forget: packages that are imported anew with such a path; the commands that
        `parlai` has are registered anew.
    :param encoding: of its output, and what is done with characters that it lacks.
    """

    def work():
        sys.stdout.reconfigure(encoding=encoding, errors=unencodable)
        sys.stderr.reconfigure(encoding=encoding, errors='backslashreplace')
        if path:
            look_first(path, forget)
        sys.exit(run_main(main, args))

    with tempfile.TemporaryDirectory() as folder:
        errors = Path(folder, 'errors')
        child = Forked(work, Path(folder, 'out'), errors)
        child.wait()
        return Ended(child.code, child.output, errors.read_text())


def look_first(path, forget):
    """
    Put folders in front of Python's path, here and in processes started from here, and
    forget packages that were imported, and which commands `parlai` has.
    """
    from parlai.core.loader import SCRIPT_REGISTRY

    from parlai_ext.commands import plugin

    path = [str(folder) for folder in path]
    sys.path[:0] = path
    os.environ['PYTHONPATH'] = os.pathsep.join(path)
    for name in list(sys.modules):
        if f'{name}.'.startswith(tuple(f'{package}.' for package in forget)):
            del sys.modules[name]
    importlib.invalidate_caches()
    SCRIPT_REGISTRY.clear()
    plugin.register.cache_clear()


def said_in_child(work, seconds=30):
    """
    Return what ``work`` returns, or the message of what it raises, as a text.

    It is done in a fork, which is killed after ``seconds``, also where no step in
    Python is run any more; the answer is then 'never ended'.
    """

    def answer():
        try:
            text = str(work())
        except Exception as error:
            text = f'{type(error).__name__}: {error}'
        said.write_text(text)

    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, 'said')
        child = Forked(answer, Path(folder, 'log'))
        return said.read_text() if child.wait_or_kill(seconds) == 0 else 'never ended'
