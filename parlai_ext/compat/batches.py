"""
Fixes of ParlAI 1.7.2 where the other rows of a batch change a row's reply.

A row is padded to the length of the longest one; its reply must not depend on that.
"""

from __future__ import annotations

from typing import Any

from parlai_ext.compat.after_import import replaces


@replaces('parlai.core.torch_generator_agent', 'TreeSearch.set_batch_context')
def block_context_without_padding(
    original: Any, self: Any, contexts: Any, row: int, gpu_beam_blocking: bool
) -> Any:
    """
    ParlAI gives a row's context with its padding to ``--beam-context-block-ngram``
    (core/torch_generator_agent.py:1513): the padding token, and n-grams that end in it,
    are forbidden in the shorter rows of a batch only. The fix removes the padding.
    """
    original(self, contexts, row, gpu_beam_blocking)
    if not gpu_beam_blocking:
        inside = [i for i, token in enumerate(self.context) if token != self.pad]
        self.context = self.context[inside[0] : inside[-1] + 1] if inside else []
    return self


@replaces('parlai.agents.seq2seq.modules', 'AttentionLayer.forward')
def attend_to_each_rows_own_end(
    original: Any, self: Any, xes: Any, hidden: Any, attn_params: Any
) -> Any:
    """
    ParlAI attends to the last ``--attention-length`` positions of the batch
    (agents/seq2seq/modules.py:683), where a shorter row has padding. The fix attends to
    the last ones of each row.
    """
    import torch

    states, mask = attn_params
    if self.attention == 'local' and states.size(1) > self.max_length:
        starts = (mask.sum(dim=1) - self.max_length).clamp(min=0)
        window = torch.arange(self.max_length, device=states.device)
        rows = torch.arange(len(states), device=states.device)
        positions = rows[:, None], starts[:, None] + window
        attn_params = states[positions], mask[positions]
    return original(self, xes, hidden, attn_params)
