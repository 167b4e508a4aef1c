"""
`-m ext:long_context`: the MSC models, which read 1024 tokens after a pre-training on
128 (Xu, Szlam and Weston 2022, "Beyond Goldfish Memory").

ParlAI's class for them, `projects.msc.agents.long_tga:TransformerVariantAgent`, is not
in its wheel. Weights and options have the same names here, so that its model files
load. It is a plain generator but for one thing, the encoder's positions: the last
``n_positions_init`` tokens of a context keep the pre-trained positions 0, 1, …; what
was said before them lies at the far end of the table, the token just before at its last
row. So a context that fits the pre-training is read as the plain generator reads it,
and in a longer one how far back a token is decides its position: nothing moves when the
dialogue grows. `transformer/generator` would read such a model file without complaint
and get long contexts wrong, so that it is refused (`systems/families.py`).
"""

from typing import Any

import torch
from parlai.agents.transformer.modules import (
    TransformerDecoder,
    TransformerEncoder,
    TransformerGeneratorModel,
)
from parlai.agents.transformer.transformer import TransformerGeneratorAgent

from parlai_ext.core import DeclaresOptions, frozen, optional


@frozen
class PositionOptions:
    """
    The positions of the encoder.
    """

    title = 'Long Context Agent'
    n_positions_init: int | None = optional(
        help='positions that the model was pre-trained with (MSC: 128)'
    )


class LongContextAgent(DeclaresOptions, TransformerGeneratorAgent):
    """
    `transformer/generator` whose encoder counts positions from the end.
    """

    declares = (PositionOptions,)

    def build_model(self, states: Any = None) -> TransformerGeneratorModel:
        """
        Build a generator with the encoder below.
        """
        kind = TransformerGeneratorModel.with_components(
            encoder=RecentFirstEncoder, decoder=TransformerDecoder
        )
        return kind(self.opt, self.dict)


class RecentFirstEncoder(TransformerEncoder):
    """
    An encoder in which the end of a context has the pre-trained positions.
    """

    def forward_embedding(
        self,
        input: torch.Tensor,
        positions: torch.Tensor | None = None,
        segments: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Embed tokens; see `TransformerEncoder.forward_embedding`.
        """
        n_pretrained = self.opt.get('n_positions_init')
        if n_pretrained is not None and n_pretrained < self.n_positions:
            if positions is None:
                counted = (input != self.padding_idx).cumsum(dim=1)
                positions = (counted - 1).clamp(min=0)
            positions = recent_first(positions, n_pretrained, self.n_positions)
        return super().forward_embedding(input, positions, segments)


def recent_first(positions: torch.Tensor, n_pretrained: int, size: int) -> torch.Tensor:
    """
    Move every row so that its last ``n_pretrained`` positions become 0, 1, 2, ….

    Earlier ones come round the end of the table: the one before 0 is ``size`` - 1.

    :param positions: one row a context, counted from its first token.
    :param size: how many positions the table has.
    """
    length = positions.amax(dim=1, keepdim=True) + 1
    return (positions - (length - n_pretrained).clamp(min=0)) % size
