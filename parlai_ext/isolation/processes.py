"""
Processes for what others wrote: how they start, and limits that they set themselves.
"""

import ctypes
import os
import resource
import subprocess
import sys
from typing import Any

C_LIBRARY = ctypes.CDLL(None)  # for what Python has no name for
# of the environment; no more, since it holds keys
ENVIRONMENT = (
    *('PATH', 'HOME', 'LANG', 'LC_ALL', 'LD_LIBRARY_PATH', 'TMPDIR', 'PYTHONHASHSEED'),
    *('XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'HF_HOME', 'HF_HUB_CACHE'),
    *('CUDA_VISIBLE_DEVICES', 'CUDA_DEVICE_ORDER', 'PYTORCH_CUDA_ALLOC_CONF'),
)
ALONE = {
    'OMP_NUM_THREADS': '1',
    'OPENBLAS_NUM_THREADS': '1',
    'TOKENIZERS_PARALLELISM': 'false',
    'HF_HUB_OFFLINE': '1',
}


def start_python(code: str, **streams: Any) -> subprocess.Popen[bytes]:
    """
    Start Python with the packages of this process, one thread, and without the keys
    that are in the environment. What it says on standard error is lost.

    :param streams: ``stdin`` and ``stdout``.
    """
    environment = {key: os.environ[key] for key in ENVIRONMENT if key in os.environ}
    environment['PYTHONPATH'] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, '-P', '-c', code],
        stderr=subprocess.DEVNULL,
        env=environment | ALONE,
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
