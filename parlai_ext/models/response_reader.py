"""
An adapter with which a sentence encoder reads a response after its context and gives it
one number: low-rank changes of its linear layers, and two small layers on what it then
says of the response. The weights of the encoder stay as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from torch.nn import functional

from parlai_ext.core import bytes_hash
from parlai_ext.models.encoders import Encoded, Inputs, MeanPooling

LAST_TURNS = 4  # of a context, which are read
MOST_TOKENS = 144  # of context and response together
RESPONSE_TOKENS = 72  # of these, which the response may take
SCALE = 2.0  # of the low-rank changes
DOWN, UP = '.A', '.B'  # ends of the names of the two matrices of a change
LAYERS = ('hid', 'top')


class ResponseReader:
    """
    The adapter. `content` is the sha256 of its file.

    :param data: a file of tensors: for each linear layer that is changed, by its name,
        ``A`` ``[rank, in]`` and ``B`` ``[out, rank]``; ``hid`` and ``top``, the weights
        and biases of the two layers.
    :raises KeyError: when there is no ``hid`` or ``top``.
    """

    def __init__(self, data: bytes):
        tensors = {name: one.float() for name, one in load_tensors(data).items()}
        self.content = bytes_hash(data)
        self.layers = [
            (tensors[f'{name}.weight'], tensors[f'{name}.bias']) for name in LAYERS
        ]
        self.changes = {
            name.removesuffix(DOWN): (one, tensors[name.removesuffix(DOWN) + UP])
            for name, one in tensors.items()
            if name.endswith(DOWN)
        }

    def numbers(
        self, encoder: MeanPooling, pairs: Sequence[tuple[tuple[str, ...], str]]
    ) -> np.ndarray:
        """
        Return one number for each context and response; higher is better.

        :param encoder: the one that the adapter was learned with.
        """
        device = encoder.device
        layers = [[part.to(device) for part in layer] for layer in self.layers]

        def judged(inputs: Inputs) -> torch.Tensor:
            states = encoder.model(**inputs).last_hidden_state
            both = features(states, inputs, encoder.tokenizer.sep_token_id)
            first, second = layers
            return functional.linear(
                torch.tanh(functional.linear(both, *first)), *second
            )

        with changed_layers(encoder.model, self.changes, device):
            rows = encoder.rows(
                list(pairs), partial(pair_ids, encoder), judged, self.content
            )
        return np.array(rows, np.float32).reshape(len(pairs))


def pair_ids(encoder: MeanPooling, pair: tuple[tuple[str, ...], str]) -> Encoded:
    """
    Return the tokens of a context and a response. Of a long context the end is read.
    """
    tokenizer = encoder.tokenizer
    end = [tokenizer.sep_token_id]

    def text_ids(text: str) -> list[int]:
        # a text cannot end itself
        return [one for one in encoder.text_ids(text.strip()) if one not in end]

    context: list[int] = []
    for turn in [turn for turn in pair[0] if turn.strip()][-LAST_TURNS:]:
        context += [*(end if context else []), *text_ids(turn)]
    response = text_ids(pair[1])[:RESPONSE_TOKENS]
    room = MOST_TOKENS - 4 - len(response)
    ids = [tokenizer.cls_token_id, *context[-room:], *end, *end, *response, *end]
    return {'input_ids': ids, 'attention_mask': [1] * len(ids)}


def features(states: torch.Tensor, inputs: Inputs, end: int) -> torch.Tensor:
    """
    Return ``[pairs, 2 * states]``: the state of the first token and the mean over the
    response, scaled to a mean square of 1.
    """
    weight = response_tokens(inputs, end).unsqueeze(-1).to(states.dtype)
    mean = (states * weight).sum(1) / weight.sum(1)
    both = torch.cat([states[:, 0], mean], dim=1)
    return both / (both.square().mean(1, keepdim=True).sqrt() + 1e-6)


def response_tokens(inputs: Inputs, end: int) -> torch.Tensor:
    """
    Return which tokens are of the response or end it: behind them stands one end token,
    or they are it.
    """
    ends = ((inputs['input_ids'] == end) & (inputs['attention_mask'] == 1)).long()
    behind = ends.flip(1).cumsum(1).flip(1)
    return (behind == 1) & (inputs['attention_mask'] == 1)


@contextmanager
def changed_layers(
    network: Any,
    changes: Mapping[str, tuple[torch.Tensor, torch.Tensor]],
    device: torch.device,
) -> Iterator[None]:
    """
    Let linear layers of a network add their low-rank changes, for a while.

    :raises AttributeError: when the network has no such layer.
    """
    hooks = []
    try:
        for name, (down, up) in changes.items():
            layer = network.get_submodule(name)
            change = partial(_with_change, down.to(device), up.to(device))
            hooks.append(layer.register_forward_hook(change))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _with_change(
    down: torch.Tensor, up: torch.Tensor, _layer: Any, given: Any, output: torch.Tensor
) -> torch.Tensor:
    low = functional.linear(given[0], down)
    return output + SCALE * functional.linear(low, up)
