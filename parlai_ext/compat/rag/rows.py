"""
Every row of a batch keeps to its own dialogue.
"""

from __future__ import annotations

from functools import wraps
from typing import Any


def documents_beside_their_own_row(module: Any) -> None:
    """
    rag/modules.py:384 takes the padding of a row for a token of it, so that passages
    are cut one token shorter in a batch than alone.
    """
    model = module.RagModel
    original = model.concat_docs_and_input

    @wraps(original)
    def concat_docs_and_input(
        self: Any,
        input: Any,
        input_lengths: Any,
        top_docs: list[Any],
        max_num_docs: int,
        right_padded: bool = True,
    ) -> Any:
        more = (max_num_docs, right_padded)
        if not right_padded:
            return original(self, input, input_lengths, top_docs, *more)
        rows: list[Any] = []
        for i, docs in enumerate(top_docs):
            own = input[i : i + 1, : int(input_lengths[i])]
            rows += original(self, own, input_lengths[i : i + 1], [docs], *more)
        padded, _ = module.padded_tensor(
            rows, pad_idx=self.pad_idx, fp16friendly=self.fp16
        )
        return padded.to(input.device)

    model.concat_docs_and_input = concat_docs_and_input


def context_of_their_own_row(module: Any) -> None:
    """
    rag/rag.py:650 says which dialogue a row of RAG-Sequence (one for each passage)
    belongs to, in a method that ParlAI no longer calls but warns of: n-grams of other
    dialogues were blocked (``--beam-context-block-ngram``).
    """
    agent = module.RagAgent
    del agent._get_context
    original = agent._get_batch_context

    @wraps(original)
    def _get_batch_context(self: Any, batch: Any) -> Any:
        source = getattr(batch, 'src_text_vec', None)
        if source is None or self.beam_context_block_ngram <= 0:
            return original(self, batch)
        context = batch.full_text_vec if self.beam_block_full_context else source
        turns = getattr(batch, 'input_turns_cnt', None)  # RAG-Turn: a row for each turn
        if turns is None:
            turns = module.torch.full((len(source),), batch.batchsize // len(source))
        return context.repeat_interleave(turns.to(context.device), dim=0)

    agent._get_batch_context = _get_batch_context
