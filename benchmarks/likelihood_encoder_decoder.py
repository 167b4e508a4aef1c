"""
Follow-ups scored by the engine, against ParlAI's stock ranking of candidates.

    python benchmarks/likelihood_encoder_decoder.py [--shape 3B --device cuda]

Random weights of a Blender shape, contexts of 128 tokens, 12 follow-ups of 5 to 10
tokens that share no beginning. Both sides are run in turn; times are medians. Floating-
point operations are counted by torch while each side runs. The first bound is that of
the same rows with keys and values made once a context and no logits for padding; the
second is the ratio of what the two sides did compute. On a machine that others use too,
``--clock cpu`` tells more than the clock on the wall.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

sys.path.insert(0, str(Path(__file__).parents[1]))

from parlai_ext import compat

compat.apply()

from parlai.agents.transformer.modules import TransformerGeneratorModel  # noqa: E402
from parlai.core.torch_generator_agent import TorchGeneratorAgent  # noqa: E402
from parlai.utils.torch import padded_tensor  # noqa: E402

from parlai_ext.bridge.cross_attention import CrossAttention  # noqa: E402
from parlai_ext.likelihood.budget import Budget  # noqa: E402
from parlai_ext.likelihood.encoder_decoder import EncoderDecoder  # noqa: E402
from parlai_ext.records import Question  # noqa: E402

DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'fp16': torch.float16}


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
    '90M': Shape(8, 8, 512, 2048, 16, 54944, 'xlm'),
    '3B': Shape(2, 24, 2560, 10240, 32, 8008, 'prelayernorm'),
    '9B': Shape(4, 32, 4096, 16384, 32, 8008, 'prelayernorm'),
}


class Words:
    """
    A dictionary of so many words, as a model wants to see it.
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
                {**sizes, **rest}, Words(shape.vocabulary)
            )
    finally:
        torch.set_default_dtype(before)
    return model.to(device).requires_grad_(False).eval()


def stock(model: TransformerGeneratorModel, questions: Sequence[Question]) -> list[Any]:
    """
    Return the sorted losses of ParlAI's own `rank_eval_label_candidates`.
    """
    device = model.START.device
    vectors = [[torch.tensor(c) for c in q.continuations] for q in questions]
    batch = SimpleNamespace(
        text_vec=torch.tensor([q.context for q in questions], device=device),
        candidate_vecs=vectors,
        candidates=[q.continuations for q in questions],
    )
    agent: Any = SimpleNamespace(
        model=model,
        NULL_IDX=0,
        _encoder_input=lambda batch: (batch.text_vec,),
        _pad_tensor=lambda rows, is_label: padded_tensor(rows, pad_idx=0),
    )
    rank = TorchGeneratorAgent.rank_eval_label_candidates
    with torch.no_grad():
        return rank(agent, batch, len(questions))[1]


def same(answers: Sequence[Any], losses: Sequence[Sequence[float]]) -> float:
    """
    Return by how much the two sides differ at most.
    """
    ours = [
        sorted(-sum(row) / len(row) for row in answer.continuations)
        for answer in answers
    ]
    pairs = zip(sum(ours, []), sum(map(list, losses), []), strict=True)
    return max(abs(a - b) for a, b in pairs)


def plain_bound(shape: Shape, length: int, sizes: Sequence[int], counted: int) -> float:
    """
    Return stock's operations over those with K/V once and no logits for padding.

    :param counted: stock's operations for one context.
    """
    d, rows, width = shape.embedding_size, len(sizes), max(sizes)
    keys = 2 * 2 * d * d * length * shape.n_decoder_layers
    logits = 2 * d * shape.vocabulary
    saved = (rows - 1) * keys + (rows * width - sum(sizes)) * logits
    return counted / (counted - saved)


def flops(work: Callable[[], object]) -> int:
    """
    Return the floating-point operations of matrix products.
    """
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def seconds(work: Callable[[], object], opt: argparse.Namespace) -> float:
    """
    Return how long the work takes, or how long processors work on it.
    """
    clock = time.process_time if opt.clock == 'cpu' else time.perf_counter
    start = clock()
    work()
    if opt.device.startswith('cuda'):
        torch.cuda.synchronize()
    return clock() - start


def peak(opt: argparse.Namespace) -> float:
    """
    Return the operations a second of a large matrix product.
    """
    n = 8192 if opt.device.startswith('cuda') else 2048
    a = torch.randn(n, n, device=opt.device).to(DTYPES[opt.dtype])
    times = [seconds(lambda: a @ a, opt) for _ in range(6)]
    return 2 * n**3 / statistics.median(times[1:])


def make_questions(shape: Shape, opt: argparse.Namespace) -> list[Question]:
    """
    Return contexts of random tokens, all with the same follow-ups.
    """
    draw = torch.Generator().manual_seed(0)

    def some(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(4, shape.vocabulary, (n,), generator=draw).tolist())

    followups = tuple((*some(4 + i % 6), 2) for i in range(opt.followups))
    return [Question(some(opt.length), followups) for _ in range(opt.contexts)]


def options() -> argparse.Namespace:
    """
    Return what the command line says.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--shape', choices=SHAPES, default='90M')
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--dtype', choices=DTYPES, default='fp32')
    parser.add_argument('--contexts', type=int, default=8)
    parser.add_argument('--length', type=int, default=128)
    parser.add_argument('--followups', type=int, default=12)
    parser.add_argument('--repeats', type=int, default=5)
    parser.add_argument('--tokens', type=int, default=16384)
    parser.add_argument('--clock', choices=('wall', 'cpu'), default='wall')
    parser.add_argument('--threads', type=int, default=2)
    return parser.parse_args()


def main() -> None:
    """
    Print counts, times and their ratios.
    """
    opt = options()
    torch.set_num_threads(opt.threads)
    shape, dtype = SHAPES[opt.shape], DTYPES[opt.dtype]
    model = build(shape, opt.device, dtype)
    questions = make_questions(shape, opt)
    engine = EncoderDecoder(CrossAttention(model), None, '', Budget(opt.tokens))
    sides: dict[str, Callable[[], Any]] = {
        'stock': lambda: stock(model, questions),
        'engine': lambda: engine.answer(questions),
    }
    counts = {name: flops(work) for name, work in sides.items()}
    difference = same(sides['engine'](), sides['stock']())
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(opt.repeats):
        for name, work in sides.items():
            times[name].append(seconds(work, opt))
    report(opt, questions, counts, times)
    print(f'largest difference of a mean log-probability: {difference:.1e}')
    best = peak(opt)
    rate = counts['engine'] / statistics.median(times['engine'])
    print(f'engine: {rate / best:.0%} of the measured matrix-product peak')
    print(f'load average: {os.getloadavg()[0]:.1f}; threads: {opt.threads}')
    print(f'clock: {opt.clock}')


def report(
    opt: argparse.Namespace,
    questions: Sequence[Question],
    counts: dict[str, int],
    times: dict[str, list[float]],
) -> None:
    """
    Print the table.
    """
    n = len(questions)
    sizes = [len(ids) for ids in questions[0].continuations]
    middle = {name: statistics.median(some) for name, some in times.items()}
    for name in counts:
        each = ', '.join(f'{t:.2f}' for t in times[name])
        print(
            f'{name}: {counts[name] / n / 1e9:.2f} GFLOP and {middle[name] / n:.4f} s '
            f'a context, {n / middle[name]:.1f} contexts/s, '
            f'{n * sum(sizes) / middle[name]:.0f} follow-up tokens/s ({each} s)'
        )
    measured = middle['stock'] / middle['engine']
    print(f'measured ratio: {measured:.2f}')
    bounds = {
        'keys and values once, no logits for padding': plain_bound(
            SHAPES[opt.shape], opt.length, sizes, counts['stock'] // n
        ),
        'as computed, trees included': counts['stock'] / counts['engine'],
    }
    for name, bound in bounds.items():
        print(f'bound ({name}): {bound:.2f}; share of it: {measured / bound:.0%}')


if __name__ == '__main__':
    main()
