"""
What ParlAI 1.7.2 breaks on with current libraries or gets wrong, and the mend for each.

A fix is a function over the module that it mends. It runs right after that module is
imported, so nothing is imported early, and a module mended twice is mended once.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from parlai_ext.compat import agents, batches, libraries, rag, worlds
from parlai_ext.compat.worlds import full_task_path

__all__ = ['apply', 'full_task_path']

Fix = Callable[[Any], None]
MENDED = '_mended_by_parlai_ext'

FIXES: dict[str, tuple[Fix, ...]] = {
    'parlai.nn.lr_scheduler': (libraries.plateau_scheduler_without_verbose,),
    'parlai.agents.hugging_face.gpt2': (
        libraries.gpt2_cache_reordering,
        libraries.gpt2_weights_without_a_bar,
        agents.gpt2_encoder_reordering,
    ),
    'parlai.agents.hugging_face.dialogpt': (agents.dialogpt_from_a_folder,),
    'parlai.agents.hugging_face.dict': (agents.dialogpt_tokens_from_a_folder,),
    'parlai.agents.seq2seq.modules': (batches.local_attention_row_by_row,),
    'parlai.core.dict': (libraries.arrays_of_token_ids,),
    'parlai.core.loader': (worlds.worlds_behind_our_prefix,),
    'parlai.core.torch_generator_agent': (
        agents.delayed_nucleus_beam,
        batches.contexts_without_padding,
    ),
    'parlai.agents.transformer.polyencoder': (agents.loss_without_a_warning,),
    'parlai.core.torch_ranker_agent': (libraries.progress_of_what_takes_time,),
    'parlai.utils.bpe': (agents.replies_without_a_leading_space,),
    'projects.dialogue_unlikelihood.agents': (agents.word_counts_only_to_train,),
    **rag.FIXES,
}


def apply() -> None:
    """
    Mend what is imported already, now, and the rest when it is imported.
    """
    for name in FIXES:
        if name in sys.modules:
            mend(sys.modules[name])
    if not any(isinstance(finder, AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, AfterImport())


def mend(module: ModuleType) -> None:
    """
    Run the fixes of ``module``, once.
    """
    if hasattr(module, MENDED):
        return
    for fix in FIXES[module.__name__]:
        fix(module)
    setattr(module, MENDED, True)


class AfterImport(MetaPathFinder):
    """
    Lets the other finders find a module, and mends it once it has been executed.
    """

    def __init__(self) -> None:
        self.asked: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in FIXES or name in self.asked:
            return None
        self.asked.add(name)  # so that the question below goes to the others
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.asked.discard(name)
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            mend(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
