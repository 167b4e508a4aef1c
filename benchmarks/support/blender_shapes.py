"""
Models of Blender's sizes with random weights.
"""

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
