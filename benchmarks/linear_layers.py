"""
Time an encoder with torch's own linear layers and with oneDNN's, in turns.

    python -m benchmarks.linear_layers [--encoder mpnet] [--repeats 5]

64 texts of 5 to 68 words, CPU time of one thread; other processors than AMD's with
AVX-512 have torch's own on both sides.
"""

import argparse
from statistics import median

import torch
from torch import nn

from benchmarks.support.measures import print_head, print_row, start, times_in_turn
from parlai_ext.models.fast_linear import FastLinear
from parlai_ext.models.handle import ModelHandle

TEXTS = ['word ' * length for length in range(5, 69)]


def main(opt: argparse.Namespace) -> None:
    """
    Print the medians of both, and how many times as fast oneDNN is.
    """
    torch.set_num_threads(1)
    encoder = ModelHandle().embedder(opt.encoder)
    layers = [one for one in encoder.model.modules() if isinstance(one, FastLinear)]

    def encode(kind: type[nn.Linear]) -> None:
        for layer in layers:
            layer.__class__ = kind
        encoder.encode(TEXTS)

    sides = {'torch': lambda: encode(nn.Linear), 'oneDNN': lambda: encode(FastLinear)}
    own, fast = map(median, times_in_turn(sides, opt).values())
    print_head(*sides, 'times as fast')
    print_row(f'{own:.2f} s', f'{fast:.2f} s', f'{own / fast:.2f}')


if __name__ == '__main__':
    start(main, __doc__, encoder='mpnet', repeats=5, clock='cpu', device='cpu')
