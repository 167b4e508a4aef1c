"""
ParlAI's data folder, where a model of its zoo lies in it, and locks on its folders.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ZOO_PREFIXES = ('zoo:', 'models:')
HIDDEN = '.parlai_ext-partial'
logger = logging.getLogger(__name__)


def data_folder(datapath: str | None) -> str:
    """
    Return ParlAI's data folder: the one given, or ParlAI's own choice.
    """
    if datapath:
        return datapath
    if os.environ.get('PARLAI_DATAPATH'):
        return os.environ['PARLAI_DATAPATH']
    from parlai.core.params import ParlaiParser

    inferred = ParlaiParser(False, False)._infer_datapath({})['datapath']
    del os.environ['PARLAI_DATAPATH']  # which that call sets
    return str(inferred)


def downloads_folder(datapath: Path) -> Path:
    """
    Return the hidden folder of the downloads that are not complete.
    """
    return datapath / 'models' / HIDDEN


def is_zoo_path(path: str) -> bool:
    """
    True if a model path names a model of ParlAI's zoo.
    """
    return path.startswith(ZOO_PREFIXES)


def local_path(path: str, datapath: str | None) -> Path:
    """
    Return where a model file is; one of the zoo, where it is after its download.
    """
    if not is_zoo_path(path):
        return Path(path)
    return Path(data_folder(datapath), 'models', path.partition(':')[2])


@contextmanager
def exclusive(folder: Path, busy: Exception | None = None) -> Iterator[None]:
    """
    Make a folder and hold a lock on it.

    The system frees the lock when its holder ends, however it ends.

    :param busy: raised while another process holds it; `None`: wait.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if busy is not None:
                raise busy from None
            logger.warning('another process is downloading to %s; waiting', folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
