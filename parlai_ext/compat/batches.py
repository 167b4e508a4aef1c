"""
Where ParlAI 1.7.2 lets the other rows of a batch change a row's reply, and the mends.

A row is padded to the longest one; what is computed from it must not see the padding.
"""

from __future__ import annotations

from functools import wraps
from typing import Any


def contexts_without_padding(module: Any) -> None:
    """
    core/torch_generator_agent.py:1513 hands a row's context to ``--beam-context-block-
    ngram`` with its padding: the padding token, and an n-gram that ends in it, is then
    forbidden in the shorter rows of a batch only.
    """
    search = module.TreeSearch
    original = search.set_batch_context

    @wraps(original)
    def set_batch_context(
        self: Any, batch_context_list: Any, batch_idx: int, gpu_beam_blocking: bool
    ) -> Any:
        original(self, batch_context_list, batch_idx, gpu_beam_blocking)
        if not gpu_beam_blocking:
            self.context = without_padding(self.context, self.pad)
        return self

    search.set_batch_context = set_batch_context


def without_padding(tokens: list[int], pad: int) -> list[int]:
    """
    Return ``tokens`` without padding at either end.

    >>> without_padding([0, 0, 5, 0, 6], 0)
    [5, 0, 6]
    """
    inside = [i for i, token in enumerate(tokens) if token != pad]
    return tokens[inside[0] : inside[-1] + 1] if inside else []


def local_attention_row_by_row(module: Any) -> None:
    """
    agents/seq2seq/modules.py:683 attends to the last ``--attention-length`` positions
    of the batch, where a shorter row has padding; here they are its own last ones.
    """
    layer = module.AttentionLayer
    original = layer.forward

    @wraps(original)
    def forward(self: Any, xes: Any, hidden: Any, attn_params: Any) -> Any:
        states, mask = attn_params
        if self.attention == 'local' and states.size(1) > self.max_length:
            starts = (mask.sum(dim=1) - self.max_length).clamp(min=0)
            window = module.torch.arange(self.max_length, device=states.device)
            rows = module.torch.arange(len(states), device=states.device)
            places = rows[:, None], starts[:, None] + window
            attn_params = states[places], mask[places]
        return original(self, xes, hidden, attn_params)

    layer.forward = forward
