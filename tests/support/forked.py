"""
Work that may never end, in a process of its own.
"""

import os
import signal


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
