"""
Build models of Blender's sizes with random weights, and count operations by formula.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from parlai.agents.transformer.modules import TransformerGeneratorModel


@dataclass(frozen=True)
class Shape:
    """
    The sizes of a model.
    """

    n_encoder_layers: int
    n_decoder_layers: int
    embedding_size: int
    ffn_size: int
    n_heads: int
    vocabulary: int
    variant: str


SHAPES = {
    'blender_90M': Shape(8, 8, 512, 2048, 16, 54944, 'xlm'),
    'blender_3B': Shape(2, 24, 2560, 10240, 32, 8008, 'prelayernorm'),
    'blender_9B': Shape(4, 32, 4096, 16384, 32, 8008, 'prelayernorm'),
}


class SizedDictionary:
    """
    A stand-in for a model's dictionary that knows its size only.
    """

    null_token, start_token, end_token, unk_token = range(4)

    def __init__(self, size: int):
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, token: int) -> int:
        return token


def build(shape: Shape, device: str, dtype: torch.dtype) -> TransformerGeneratorModel:
    """
    Return a model of this shape with random weights.
    """
    sizes = {k: v for k, v in vars(shape).items() if k != 'vocabulary'}
    rest = {'n_layers': 2, 'n_positions': 512, 'activation': 'gelu', 'truncate': 128}
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = TransformerGeneratorModel(
                {**sizes, **rest}, SizedDictionary(shape.vocabulary)
            )
    finally:
        torch.set_default_dtype(before)
    return model.to(device).requires_grad_(False).eval()


@dataclass(frozen=True)
class Operations:
    """
    Floating-point operations of the matrix products for one context.

    `stock`: ParlAI's own ranking of candidates; `plain`: the same rows with keys and
    values made once and no logits for padding; `engine`: one tree of follow-ups.
    """

    stock: int
    plain: int
    engine: int


def operations(shape: Shape, length: int, sizes: Sequence[int]) -> Operations:
    """
    Return the operations that scoring follow-ups of these sizes (in tokens) takes.

    The follow-ups share no beginning.
    """
    d, rows, width = shape.embedding_size, len(sizes), max(sizes)
    nodes = sum(sizes) - rows + 1  # the start once; last tokens are no nodes
    forward = 4 * d * shape.ffn_size
    layers = shape.n_decoder_layers
    encoder = length * (8 * d * d + forward + 4 * length * d) * shape.n_encoder_layers
    keys = 4 * d * d * length * layers

    def decoder(n: int, seen: int) -> int:
        """
        ``n`` tokens that each see ``seen`` of their own and the context.
        """
        return n * (12 * d * d + forward + 4 * d * (seen + length)) * layers

    logits = 2 * d * shape.vocabulary
    return Operations(
        encoder + rows * (keys + decoder(width, width) + width * logits),
        encoder + keys + rows * decoder(width, width) + sum(sizes) * logits,
        encoder + keys + decoder(nodes, nodes) + nodes * logits,
    )
