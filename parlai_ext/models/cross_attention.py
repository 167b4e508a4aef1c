"""
ParlAI's encoder-decoder transformers, reading a tree of continuations.

ParlAI's own layers compute. ParlAI gives its decoder one row for each continuation, and
each row makes the cross-attention's keys and values of its context anew. Here a context
has one row, a tree of all its continuations, so keys and values are made once. A tree
differs from a sequence in its positions and in who sees whom; the layers are told.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from parlai.agents.transformer.modules import (
    MultiHeadAttention,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerGeneratorModel,
)

State = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Memory:
    """
    Encoded contexts, their mask, and keys and values by layer where they are held.
    """

    states: torch.Tensor
    mask: torch.Tensor
    held: tuple[State, ...] = ()


class CrossAttention:
    """
    A `likelihood.encoder_decoder.Model` over a model of ParlAI's.
    """

    def __init__(self, model: TransformerGeneratorModel):
        self.model = model.eval()
        self.null = int(model.NULL_IDX)
        self.vocabulary = len(model.embeddings.weight)
        self.device = model.embeddings.weight.device
        nothing = torch.zeros(1, 0, dtype=torch.long, device=self.device)
        first = model._get_initial_forced_decoder_input(1, nothing)
        self.start = tuple(first[0].tolist())

    def encode(self, xs: torch.Tensor, hold: bool) -> Memory:
        """
        Return encoded contexts.
        """
        states, mask = self.model.encoder(xs)
        if not hold:
            return Memory(states, mask)
        layers = self.model.decoder.layers
        return Memory(
            states,
            mask,
            tuple(_state(layer.encoder_attention, states, mask) for layer in layers),
        )

    def keep(self, memory: Memory, rows: torch.Tensor) -> Memory:
        """
        Return the memory of some contexts.
        """

        def some(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.index_select(0, rows.to(tensor.device))

        return Memory(
            some(memory.states),
            some(memory.mask),
            tuple({k: some(v) for k, v in state.items()} for state in memory.held),
        )

    def decode(
        self, memory: Memory, ys: torch.Tensor, at: torch.Tensor, sees: torch.Tensor
    ) -> torch.Tensor:
        """
        Return the decoder's output for the nodes of trees.

        Layers of one model may lie on several devices.
        """
        decoder = self.model.decoder
        tensor = decoder.forward_embedding(ys, at)
        for i, layer in enumerate(decoder.layers):
            device = layer.norm1.weight.device
            given = {'encoder_attn': memory.held[i]} if memory.held else None
            layer._create_selfattn_mask = lambda _, d=device: sees.to(d)
            try:
                tensor, _ = layer(
                    tensor.to(device),
                    memory.states.to(device),
                    memory.mask.to(device),
                    incr_state=given,
                )
            finally:
                del layer._create_selfattn_mask
        tensor = tensor.to(self.device)
        if decoder.variant == 'prelayernorm':
            tensor = decoder.norm_embeddings(tensor)
        return tensor

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return what the model's output layer says.
        """
        return self.model.output(hidden.unsqueeze(0)).squeeze(0)


def _state(attention: Any, states: torch.Tensor, mask: torch.Tensor) -> State:
    """
    Return keys and values as ParlAI's attention keeps them.
    """
    device = attention.k_lin.weight.device

    def heads(linear: Any) -> torch.Tensor:
        made = linear(states.to(device)).unflatten(-1, (attention.n_heads, -1))
        return made.transpose(1, 2).contiguous()

    return {
        'prev_key': heads(attention.k_lin),
        'prev_value': heads(attention.v_lin),
        'prev_mask': mask.to(device),
    }


def foreign_part(model: TransformerGeneratorModel) -> str | None:
    """
    Return what of a model's decoder is not ParlAI's own, `None` if all is.
    """
    own: list[tuple[Any, Any]] = [(model.decoder, TransformerDecoder)]
    for layer in model.decoder.layers:
        own.append((layer, TransformerDecoderLayer))
        if isinstance(layer, TransformerDecoderLayer):
            own += [
                (layer.self_attention, MultiHeadAttention),
                (layer.encoder_attention, MultiHeadAttention),
            ]
    for part, kind in own:
        if getattr(type(part), 'forward', None) is not kind.forward:
            return type(part).__name__
    return None
