"""
Attention masks of token trees, in the shape that a causal model takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from parlai_ext.core.errors import UserError
from parlai_ext.models.likelihood.prefix_tree import tree_mask

FULL, SLIDING = 'full_attention', 'sliding_attention'


@dataclass(frozen=True)
class Masks:
    """
    Which masks a model takes.

    :param kinds: of its layers; a model with several takes a mask for each by name.
    :param window: how far back layers with a sliding window look.
    :param additive: the dtype of masks that are added, or `None` for true and false.
    """

    kinds: tuple[str, ...]
    window: int | None
    additive: torch.dtype | None

    @classmethod
    def of(cls, model: Any) -> Masks:
        """
        Return the masks that a Hugging Face model takes.

        :raises UserError: for layers that a tree cannot be shown to.
        """
        config = model.config.get_text_config()
        if (why := untreelike(config)) is not None:
            raise UserError(
                f'{type(model).__name__}: {why} cannot read a tree of continuations; a '
                'model with position ids and a mask of its own would do'
            )
        window = getattr(config, 'sliding_window', None)
        kinds = getattr(config, 'layer_types', None)
        kinds = sorted(set(kinds or [SLIDING if window else FULL]))
        attention = config._attn_implementation
        if attention not in ('sdpa', 'eager'):
            raise UserError(
                f'{type(model).__name__}: attention {attention!r} takes no mask of our '
                'own; sdpa or eager would do'
            )
        additive = None if attention == 'sdpa' else model.dtype
        return cls(tuple(kinds), window, additive)

    def of_trees(self, ends: torch.Tensor, depths: torch.Tensor) -> Any:
        """
        Return the mask of a batch of trees, or one for each kind of layer.
        """
        found = {
            kind: self._cast(
                tree_mask(ends, depths, self.window if kind == SLIDING else None)
            )
            for kind in self.kinds
        }
        return found if len(found) > 1 else found[self.kinds[0]]

    def _cast(self, seen: torch.Tensor) -> torch.Tensor:
        if self.additive is None:
            return seen
        least = torch.finfo(self.additive).min
        zero = torch.zeros((), dtype=self.additive, device=seen.device)
        return torch.where(seen, zero, least)


def untreelike(config: Any) -> str | None:
    """
    Return what of a model places its tokens by their order in a row; `None` if nothing.

    What is not known here, a trial finds out (`causal_checks`).
    """
    if getattr(config, 'alibi', False) or config.model_type in ('bloom', 'mpt'):
        return 'ALiBi'
    if 'local' in getattr(config, 'attention_layers', ()):
        return 'local attention'
    kinds = sorted(set(getattr(config, 'layer_types', None) or ()))
    unknown = [kind for kind in kinds if kind not in (FULL, SLIDING)]
    return f'layers of {", ".join(unknown)}' if unknown else None
