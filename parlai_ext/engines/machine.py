"""
Where models and data lie on this machine, with locks on their folders, and how models
compute on it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.core import (
    frozen,
    logger,
    one_value,
    option,
    optional,
)

DATA_FOLDER = 'PARLAI_DATAPATH'  # the variable; ParlAI's own parser sets it, too
TOKENS_A_ROW = 256  # that a row of a batch is taken to have
SHARE_FOR_WEIGHTS = 0.6  # of memory; the rest is for what the models compute


@frozen
class Machine:
    """
    Where models lie and how they compute; a command's options, read once.
    """

    title = 'machine'
    batchsize: int = option(
        64,
        low=1,
        help='dialogues, or contexts, that go through a model together (64)',
    )
    datapath: str | None = optional(
        metavar='FOLDER',
        help='the folder of models and data (default: PARLAI_DATAPATH, the data folder '
        'of a checkout of ParlAI, or ~/.cache/parlai_ext)',
    )
    no_cuda: bool = option(False, help='use the CPU even where there is a GPU')
    fp16: bool | None = optional(
        help="half precision on a GPU (default: as the model's own options say)",
    )
    max_gpu_memory: float | None = optional(
        above=0,
        metavar='GB',
        help='what the weights of loaded systems may take (of RAM without a GPU)',
    )
    reply_timeout: float | None = option(
        10_800.0,
        above=0,
        metavar='SECONDS',
        help='a system in a process of its own that needs longer for a batch of '
        'replies is left out (3 hours)',
    )
    trust_model_code: tuple[str, ...] = option(
        (),
        read=one_value,
        metavar='FILE',
        help='a model file, or the file of an agent, whose code may do what you can; '
        'it is remembered by its hash; may be given several times',
    )

    @property
    def tokens(self) -> int:
        """
        How many tokens go through a model together, padding counted.
        """
        return self.batchsize * TOKENS_A_ROW


def use_data_folder(folder: str | None) -> None:
    """
    Have models and data in ``folder`` from now on, in the whole process and in those
    that it starts, as ParlAI's own ``--datapath`` does; `None` changes nothing.
    """
    if folder:
        os.environ[DATA_FOLDER] = str(folder)


@contextmanager
def data_in(folder: str | None) -> Iterator[None]:
    """
    Use a data folder meanwhile; what ParlAI sets inside is undone as well.
    """
    before = os.environ.get(DATA_FOLDER)
    use_data_folder(folder)
    try:
        yield
    finally:
        os.environ.pop(DATA_FOLDER, None)
        use_data_folder(before)


# --- the folder of models and data ----------------------------------------------------

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
