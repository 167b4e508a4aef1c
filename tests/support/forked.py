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
    with tempfile.TemporaryFile('w+') as out, tempfile.TemporaryFile('w+') as errors:
        child = os.fork()
        if not child:
            for number, file in ((1, out), (2, errors)):
                os.dup2(file.fileno(), number)
            sys.stdout = os.fdopen(1, 'w', 1, encoding, unencodable)
            sys.stderr = os.fdopen(2, 'w', 1, encoding, 'backslashreplace')
            if path:
                look_first(path, forget)
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
