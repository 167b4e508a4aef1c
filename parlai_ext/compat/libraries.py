"""
Libraries that have moved on since ParlAI 1.7.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any


@contextmanager
def without_bars() -> Iterator[None]:
    """
    Keep transformers from progress bars of its own, which tear up that of the run.
    """
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def gpt2_weights_without_a_bar(module: Any) -> None:
    """
    agents/hugging_face/gpt2.py:79 and dialogpt.py:54 let transformers show one.
    """
    decoder = module.GPT2Decoder
    original = decoder.__init__

    @wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        with without_bars():
            original(self, *args, **kwargs)

    decoder.__init__ = __init__


def progress_of_what_takes_time(module: Any) -> None:
    """
    rag/retrievers.py:82 and core/torch_ranker_agent.py:992 show how far they are with
    every file, however small.
    """
    module.tqdm = partial(module.tqdm, delay=2)


def plateau_scheduler_without_verbose(module: Any) -> None:
    """
    nn/lr_scheduler.py:338 passes ``verbose``, which torch 2.7 took away: with the
    default ``--lr-scheduler`` nothing can be trained.
    """
    base = module.ParlAILRScheduler

    def __init__(self, optimizer, patience, decay, warmup_updates, warmup_rate):  # type: ignore[no-untyped-def]
        base.__init__(self, warmup_updates, warmup_rate)
        self.scheduler = module.optim.lr_scheduler.ReduceLROnPlateau(
            optimizer, 'min', factor=decay, patience=patience
        )

    module.ReduceOnPlateauLRScheduler.__init__ = __init__


def gpt2_cache_reordering(module: Any) -> None:
    """
    agents/hugging_face/gpt2.py:188 takes the cache apart as tuples; transformers 5 has
    `Cache` objects, which reorder themselves: GPT-2 and DialoGPT could not generate.
    """
    model = module.HFGPT2Model
    for_tuples = model.reorder_decoder_incremental_state

    @wraps(for_tuples)
    def reorder(self: Any, incremental_state: Any, inds: Any) -> Any:
        if not hasattr(incremental_state, 'reorder_cache'):
            return for_tuples(self, incremental_state, inds)
        incremental_state.reorder_cache(inds)
        return incremental_state

    model.reorder_decoder_incremental_state = reorder


def arrays_of_token_ids(module: Any) -> None:
    """
    core/dict.py:754 says ``np.int``, which numpy 1.24 took away.
    """
    agent = module.DictionaryAgent
    original = agent.txt2vec

    @wraps(original)
    def txt2vec(self: Any, text: str, vec_type: Any = list) -> Any:
        if vec_type is not module.np.ndarray:
            return original(self, text, vec_type)
        return module.np.array(original(self, text, list), dtype=int)

    agent.txt2vec = txt2vec
