"""
Fixes of ParlAI 1.7.2 where the other rows of a batch change a row's reply.

A row is padded to the length of the longest one; its reply must not depend on that.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from parlai_ext.compat.after_import import fixes


@fixes('parlai.core.torch_generator_agent')
def block_context_without_padding(module: Any) -> None:
    """
    ParlAI gives a row's context with its padding to ``--beam-context-block-ngram``
    (core/torch_generator_agent.py:1513): the padding token, and n-grams that end in it,
    are forbidden in the shorter rows of a batch only. The fix removes the padding.
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


@fixes('parlai.agents.seq2seq.modules')
def attend_to_each_rows_own_end(module: Any) -> None:
    """
    ParlAI attends to the last ``--attention-length`` positions of the batch
    (agents/seq2seq/modules.py:683), where a shorter row has padding. The fix attends to
    the last ones of each row.
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
            positions = rows[:, None], starts[:, None] + window
            attn_params = states[positions], mask[positions]
        return original(self, xes, hidden, attn_params)

    layer.forward = forward
