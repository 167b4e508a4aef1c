"""
Processes for what others wrote: how they start, and limits that they set themselves.
"""

import os
import resource
import subprocess
import sys
from typing import Any

# of the environment; no more, since it holds keys
ENVIRONMENT = ('PATH', 'HOME', 'LANG', 'LC_ALL', 'LD_LIBRARY_PATH', 'TMPDIR')


def start_python(code: str, **streams: Any) -> subprocess.Popen[bytes]:
    """
    Start Python with the packages of this process, one thread, and without the keys
    that are in the environment. What it says on standard error is lost.

    :param streams: ``stdin`` and ``stdout``.
    """
    environment = {key: os.environ[key] for key in ENVIRONMENT if key in os.environ}
    environment['PYTHONPATH'] = os.pathsep.join(path for path in sys.path if path)
    environment |= {'OMP_NUM_THREADS': '1', 'OPENBLAS_NUM_THREADS': '1'}
    return subprocess.Popen(
        [sys.executable, '-P', '-c', code],
        stderr=subprocess.DEVNULL,
        env=environment,
        **streams,
    )


def lower_limit(what: int, most: int) -> None:
    """
    Lower a limit of this process; one that is lower already, as schedulers set it,
    stays.

    :param what: a ``RLIMIT_`` of `resource`.
    """
    _, hard = resource.getrlimit(what)
    limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(what, (limit, hard))
