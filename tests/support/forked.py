"""
Work that may never end, in a process of its own.
"""

import importlib
import os
import signal
import sys
import tempfile
from typing import NamedTuple


class Ended(NamedTuple):
    """
    Exit code and output of a command line.
    """

    code: int
    out: str
    errors: str


def command_in_child(main, *args, path=()):
    """
    Run a command line as another process would, in which nothing has to be imported
    anew but ParlAI's commands and ours.

    :param path: folders that Python looks into first.
    """
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as errors:
        child = os.fork()
        if not child:
            for number, file in ((1, out), (2, errors)):
                os.dup2(file.fileno(), number)
            sys.stdout, sys.stderr = os.fdopen(1, 'w', 1), os.fdopen(2, 'w', 1)
            if path:
                look_first(path)
            code = 0
            try:
                main([str(arg) for arg in args])
            except SystemExit as end:
                code = end.code or 0
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
                code = 1
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        for file in (out, errors):
            file.seek(0)
        return Ended(os.waitstatus_to_exitcode(status), out.read(), errors.read())


def look_first(path):
    """
    Put folders in front of Python's path, here and in processes started from here, and
    forget which commands `parlai` has.
    """
    from parlai.core.loader import SCRIPT_REGISTRY

    from parlai_ext.commands import plugin

    path = [str(folder) for folder in path]
    sys.path[:0] = path
    os.environ['PYTHONPATH'] = os.pathsep.join(path)
    for name in list(sys.modules):
        if f'{name}.'.startswith(('parlai_internal.', 'parlai.scripts.')):
            del sys.modules[name]
    importlib.invalidate_caches()
    SCRIPT_REGISTRY.clear()
    plugin.register.cache_clear()


def said_in_child(work, seconds=30):
    """
    Return what ``work`` returns, or the message of what it raises, as a text.

    It is done in a fork, which the kernel ends after ``seconds``, also where no step in
    Python is run any more; the answer is then 'never ended'.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(seconds)
        try:
            said = str(work())
        except Exception as error:
            said = f'{type(error).__name__}: {error}'
        os.write(writes, said.encode()[:60_000])
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads, 'rb') as answer:
        said = answer.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return 'never ended'
    return said
