"""
Work that may never end, in a process of its own.
"""

import os
import signal
import sys
import tempfile


def command_in_child(main, *args):
    """
    Return the exit code of a command line and what it wrote to standard error, as
    another process would, in which nothing has to be imported anew.
    """
    with tempfile.TemporaryFile('w+') as errors:
        child = os.fork()
        if not child:
            os.dup2(errors.fileno(), 2)
            sys.stderr = os.fdopen(2, 'w', 1)
            code = 0
            try:
                main([str(arg) for arg in args])
            except SystemExit as end:
                code = end.code or 0
            except BaseException as error:
                sys.excepthook(type(error), error, error.__traceback__)
                code = 1
            sys.stderr.flush()
            os._exit(code)
        _, status = os.waitpid(child, 0)
        errors.seek(0)
        return os.waitstatus_to_exitcode(status), errors.read()


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
