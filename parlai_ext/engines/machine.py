"""
Where models lie on this machine, and how they compute on it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from parlai_ext.core import one_value, option, options_from_opt

DATA_FOLDER = 'PARLAI_DATAPATH'  # the variable; ParlAI's own parser sets it, too
TOKENS_A_ROW = 256  # that a row of a batch is taken to have
SHARE_FOR_WEIGHTS = 0.6  # of memory; the rest is for what the models compute


@dataclass(frozen=True)
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
    datapath: str | None = option(
        None,
        metavar='FOLDER',
        help='the folder of models and data (default: PARLAI_DATAPATH, the data folder '
        'of a checkout of ParlAI, or ~/.cache/parlai_ext)',
    )
    no_cuda: bool = option(False, help='use the CPU even where there is a GPU')
    fp16: bool | None = option(
        None,
        help="half precision on a GPU (default: as the model's own options say)",
    )
    max_gpu_memory: float | None = option(
        None,
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

    @classmethod
    def from_options(cls, opt: Mapping[str, object]) -> Machine:
        """
        Return the machine that the options of a command or of an agent describe.
        """
        return options_from_opt(cls, opt)

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
