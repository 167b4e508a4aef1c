"""
Fixes of ParlAI 1.7.2 for libraries that have changed since, and for progress bars.
"""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Any

from parlai_ext.compat.after_import import fixes, replaces
from parlai_ext.view.progress import bar_settings


@contextmanager
def without_bars() -> Iterator[None]:
    """
    Keep transformers from showing progress bars, which would tear up ours.
    """
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


@contextmanager
def quiet_parlai() -> Iterator[None]:
    """
    Silence ParlAI's reports of options that it overrides and of what it builds.
    """
    from parlai.utils import logging

    handler = logging.logger.streamHandler
    level = handler.level
    handler.setLevel(logging.ERROR)
    try:
        yield
    finally:
        handler.setLevel(level)


@contextmanager
def silent_parlai() -> Iterator[None]:
    """
    Keep ParlAI's own builders, too, from printing where a command prints its result.
    """
    with quiet_parlai(), redirect_stdout(StringIO()):
        yield


@replaces('parlai.agents.hugging_face.gpt2', 'GPT2Decoder.__init__')
def load_gpt2_without_bars(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    """
    ParlAI lets transformers show a progress bar while GPT-2 and DialoGPT are loaded
    (agents/hugging_face/gpt2.py:79, dialogpt.py:54). The fix hides it.
    """
    with without_bars():
        original(self, *args, **kwargs)


@fixes('parlai.core.torch_ranker_agent', 'parlai.agents.rag.retrievers')
def show_bars_after_two_seconds(module: Any) -> None:
    """
    ParlAI shows a progress bar for every file, however small
    (core/torch_ranker_agent.py:992, agents/rag/retrievers.py:82). The fix shows it only
    after two seconds, and in a log file as lines.
    """
    original = module.tqdm

    def late_bar(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **{'delay': 2, **bar_settings(), **kwargs})

    module.tqdm = late_bar


@replaces('parlai.nn.lr_scheduler', 'ReduceOnPlateauLRScheduler.__init__')
def build_plateau_scheduler_without_verbose(
    original: Any,
    self: Any,
    optimizer: Any,
    patience: int,
    decay: float,
    *warmup: float,
) -> None:
    """
    ParlAI passes ``verbose`` to a scheduler that lost this argument with torch 2.7
    (nn/lr_scheduler.py:338): nothing can be trained with the default
    ``--lr-scheduler``. The fix does not pass it.
    """
    from parlai.nn.lr_scheduler import ParlAILRScheduler
    from torch.optim.lr_scheduler import ReduceLROnPlateau

    ParlAILRScheduler.__init__(self, *warmup)
    self.scheduler = ReduceLROnPlateau(
        optimizer, 'min', factor=decay, patience=patience
    )


@replaces(
    'parlai.agents.hugging_face.gpt2', 'HFGPT2Model.reorder_decoder_incremental_state'
)
def reorder_gpt2_cache_object(
    original: Any, self: Any, incremental_state: Any, inds: Any
) -> Any:
    """
    ParlAI reorders a cache of tuples (agents/hugging_face/gpt2.py:188), but in
    transformers 5 it is a `Cache` object: GPT-2 and DialoGPT cannot generate. The fix
    lets the object reorder itself.
    """
    incremental_state.reorder_cache(inds)
    return incremental_state


@replaces('parlai.core.dict', 'DictionaryAgent.txt2vec')
def make_token_id_arrays_of_int(
    original: Any, self: Any, text: str, vec_type: Any = list
) -> Any:
    """
    ParlAI uses ``np.int`` (core/dict.py:754), which numpy 1.24 removed. The fix uses
    ``int``.
    """
    import numpy as np

    if vec_type is not np.ndarray:
        return original(self, text, vec_type)
    return np.array(original(self, text, list), dtype=int)
