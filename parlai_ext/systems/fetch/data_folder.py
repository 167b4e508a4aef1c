"""
The folder of models and data, where a model of the zoo lies in it, and locks on its
folders.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.core import logger
from parlai_ext.engines import DATA_FOLDER

ZOO_PREFIXES = ('zoo:', 'models:')
HIDDEN = '.parlai_ext-partial'


def data_folder(of_system: str | None = None) -> str:
    """
    Return the folder of models and data: that of ``PARLAI_DATAPATH``, or ParlAI's own;
    but no folder of an environment, which would be filled anew with each one: instead,
    the user's cache (``$XDG_CACHE_HOME/parlai_ext``, or in ``~/.cache``).

    :param of_system: the option ``datapath`` of a system, which comes first.
    """
    own = _folder_of_parlai()
    # ParlAI writes its own choice into its options and into the environment
    for named in (of_system, os.environ.get(DATA_FOLDER)):
        if named and Path(named) != own:
            return named
    if own is not None and not {'site-packages', 'dist-packages'} & set(own.parts):
        return str(own)
    caches = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
    return str(Path(caches, 'parlai_ext'))


@cache
def _folder_of_parlai() -> Path | None:
    """
    Return where ParlAI keeps data (core/params.py:_infer_datapath); nothing of it is
    imported.
    """
    spec = find_spec('parlai')
    return Path(spec.origin).parents[1] / 'data' if spec and spec.origin else None


def downloads_folder() -> Path:
    """
    Return the hidden folder of the downloads that are not complete.
    """
    return Path(data_folder(), 'models', HIDDEN)


def is_zoo_path(path: str) -> bool:
    """
    True if a model path names a model of ParlAI's zoo.
    """
    return path.startswith(ZOO_PREFIXES)


def local_path(path: str) -> Path:
    """
    Return where a model file is; one of the zoo, where it is after its download.
    """
    if not is_zoo_path(path):
        return Path(path)
    return Path(data_folder(), 'models', path.partition(':')[2])


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """
    Make a folder and hold a lock on it.

    The system frees the lock when its holder ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning('another process is downloading to %s; waiting', folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
