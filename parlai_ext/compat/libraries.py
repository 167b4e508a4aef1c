"""
Fixes of ParlAI 1.7.2 for libraries that have changed since, and for progress bars.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

from parlai_ext.compat.after_import import fixes


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


@fixes('parlai.agents.hugging_face.gpt2')
def load_gpt2_without_bars(module: Any) -> None:
    """
    ParlAI lets transformers show a progress bar while GPT-2 and DialoGPT are loaded
    (agents/hugging_face/gpt2.py:79, dialogpt.py:54). The fix hides it.
    """
    decoder = module.GPT2Decoder
    original = decoder.__init__

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with without_bars():
            original(self, *args, **kwargs)

    decoder.__init__ = __init__


@fixes('parlai.core.torch_ranker_agent', 'parlai.agents.rag.retrievers')
def show_bars_after_two_seconds(module: Any) -> None:
    """
    ParlAI shows a progress bar for every file, however small
    (core/torch_ranker_agent.py:992, agents/rag/retrievers.py:82). The fix shows it only
    after two seconds.
    """
    module.tqdm = partial(module.tqdm, delay=2)


@fixes('parlai.nn.lr_scheduler')
def build_plateau_scheduler_without_verbose(module: Any) -> None:
    """
    ParlAI passes ``verbose`` to a scheduler that lost this argument with torch 2.7
    (nn/lr_scheduler.py:338): nothing can be trained with the default
    ``--lr-scheduler``. The fix does not pass it.
    """
    base = module.ParlAILRScheduler

    def __init__(self, optimizer, patience, decay, warmup_updates, warmup_rate):  # type: ignore[no-untyped-def]
        base.__init__(self, warmup_updates, warmup_rate)
        self.scheduler = module.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, 'min', factor=decay, patience=patience
        )

    module.ReduceOnPlateauLRScheduler.__init__ = __init__


@fixes('parlai.agents.hugging_face.gpt2')
def reorder_gpt2_cache_object(module: Any) -> None:
    """
    ParlAI reorders a cache of tuples (agents/hugging_face/gpt2.py:188), but in
    transformers 5 it is a `Cache` object: GPT-2 and DialoGPT cannot generate. The fix
    lets the object reorder itself.
    """
    model = module.HFGPT2Model
    original = model.reorder_decoder_incremental_state

    @wraps(original)
    def reorder(self: Any, incremental_state: Any, inds: Any) -> Any:
        if not hasattr(incremental_state, 'reorder_cache'):
            return original(self, incremental_state, inds)
        incremental_state.reorder_cache(inds)
        return incremental_state

    model.reorder_decoder_incremental_state = reorder


@fixes('parlai.core.dict')
def make_token_id_arrays_of_int(module: Any) -> None:
    """
    ParlAI uses ``np.int`` (core/dict.py:754), which numpy 1.24 removed. The fix uses
    ``int``.
    """
    agent = module.DictionaryAgent
    original = agent.txt2vec

    @wraps(original)
    def txt2vec(self: Any, text: str, vec_type: Any = list) -> Any:
        if vec_type is not module.np.ndarray:
            return original(self, text, vec_type)
        return module.np.array(original(self, text, list), dtype=int)

    agent.txt2vec = txt2vec
