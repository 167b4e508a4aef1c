"""
A causal language model as ParlAI's generators are built: encoder and decoder.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from parlai.core.torch_generator_agent import TorchGeneratorModel
from parlai.utils.torch import IdentityLayer
from torch.nn import ModuleList
from transformers import AutoModelForCausalLM

from parlai_ext.core.errors import UserError
from parlai_ext.systems.hf.causal_tokens import NULL, TokenDictionary, base_folder
from parlai_ext.systems.pretrained import quiet, read


def build_network(tokens: TokenDictionary, opt: Mapping[str, Any]) -> CausalNetwork:
    """
    Return the network of a model: that of a saved model without weights, which ParlAI
    loads next; else the base model's.

    :raises UserError: when the base model cannot be had or read, or has not as many
        layers as shall learn.
    """
    if tokens.is_saved:
        with quiet():
            network = AutoModelForCausalLM.from_config(tokens.config)
    else:
        arguments = {'dtype': torch.float32}
        network = read(base_folder(opt), torch.device('cpu'), arguments)[2]
    number = opt.get('trained_layers')
    network.requires_grad_(number is None)
    if number is not None:  # the last so many layers learn, and nothing else
        kinds = (one for one in network.modules() if isinstance(one, ModuleList))
        layers = max(kinds, key=len, default=ModuleList())
        if not 0 < number <= len(layers):
            raise UserError(f'trained_layers: {number}; the model has {len(layers)}')
        for layer in layers[len(layers) - number :]:
            layer.requires_grad_(True)
    return CausalNetwork(tokens, network, bool(opt.get('bf16')))


class CausalNetwork(TorchGeneratorModel):
    """
    A network of Hugging Face's between an encoder, which does nothing, and logits.

    :param bf16: compute in bfloat16; the weights stay float32.
    """

    def __init__(self, tokens: TokenDictionary, network: Any, bf16: bool = False):
        super().__init__(NULL, tokens.start_idx, tokens.end_idx)
        self.encoder = IdentityLayer()
        self.decoder = Continuation(network, bf16)

    def decode_forced(
        self, encoder_states: torch.Tensor, ys: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Return the logits of every token of the labels, and the likeliest tokens.

        The last token of the prompt foretells the first of the label.

        :param encoder_states: prompts, padded on the left.
        :param ys: labels, padded on the right.
        """
        together = torch.cat([encoder_states, ys[:, :-1]], dim=1)
        logits, _ = self.decoder.logits(together, last=ys.shape[1])
        return logits, logits.argmax(dim=2)

    def output(self, tensor: torch.Tensor) -> torch.Tensor:
        """
        Return logits, which the decoder returns already.
        """
        return tensor

    def reorder_encoder_states(self, encoder_states: torch.Tensor, indices: Any) -> Any:
        """
        Return the prompts of these rows.
        """
        rows = torch.as_tensor(indices, device=encoder_states.device)
        return encoder_states.index_select(0, rows)

    def reorder_decoder_incremental_state(
        self, incremental_state: Any, inds: torch.Tensor
    ) -> Any:
        """
        Return the cache with these rows.
        """
        incremental_state.reorder_cache(inds)
        return incremental_state


class Continuation(torch.nn.Module):
    """
    The logits of the tokens that follow a prompt.
    """

    def __init__(self, network: Any, bf16: bool):
        super().__init__()
        self.network, self.bf16 = network, bf16
        known = inspect.signature(network.forward).parameters
        self.knows_positions = 'position_ids' in known
        self.keeps_logits = 'logits_to_keep' in known

    def forward(
        self, input: torch.Tensor, encoder_state: torch.Tensor, incr_state: Any = None
    ) -> tuple[torch.Tensor, Any]:
        """
        Return the logits of the next token of each row, and the cache.

        :param input: what was generated so far, after a first token that stands for
            the prompt.
        :param encoder_state: prompts, padded on the left.
        :param incr_state: the cache; `None` at the first token.
        """
        together = torch.cat([encoder_state, input[:, 1:]], dim=1)
        return self.logits(together, last=1, cache=incr_state, use_cache=True)

    def logits(
        self,
        tokens: torch.Tensor,
        last: int,
        cache: Any = None,
        use_cache: bool = False,
    ) -> tuple[torch.Tensor, Any]:
        """
        Return the logits after each of the last tokens, and the cache.

        :param tokens: rows of one length, with `NULL` as padding.
        :param last: how many tokens.
        :param cache: holds all tokens but the last one.
        """
        mask = tokens != NULL
        arguments: dict[str, Any] = {'attention_mask': mask, 'use_cache': use_cache}
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        if cache is not None:
            tokens, positions = tokens[:, -1:], positions[:, -1:]
            arguments['past_key_values'] = cache
        if self.knows_positions:
            arguments['position_ids'] = positions
        if self.keeps_logits:
            arguments['logits_to_keep'] = last
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.bf16):
            output = self.network(input_ids=tokens.clamp(min=0), **arguments)
        logits = output.logits[:, -last:].float()
        return logits, output.past_key_values if use_cache else None
