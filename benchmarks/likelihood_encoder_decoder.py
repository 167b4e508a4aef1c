"""
Time the engine for encoder-decoders against ParlAI's own ranking of candidates.

    python -m benchmarks.likelihood_encoder_decoder
    python -m benchmarks.likelihood_encoder_decoder --shape blender_3B --device cuda
    python -m benchmarks.likelihood_encoder_decoder --shape blender_9B --device cuda \
        --dtype bf16 --followups 8 --contexts 512 --engine-only

Random weights of a Blender shape, contexts of 128 tokens, 12 follow-ups of 5 to 10
tokens that share no beginning. Both sides are run in turn; times are medians. The
matrix products' floating-point operations come from a formula, and torch counts them
while each side runs: the two must agree. The first bound is that of the same rows with
keys and values made once a context and no logits for padding; the second is the ratio
of what the two sides compute. On a machine that others use too, ``--clock cpu`` tells
more than the clock on the wall. Without a GPU, ``--device cuda`` prints the bounds.
"""

import argparse
import os
import statistics
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
from parlai.agents.transformer.modules import TransformerGeneratorModel
from parlai.core.torch_generator_agent import TorchGeneratorAgent
from parlai.utils.torch import padded_tensor
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.support.blender_shapes import (
    SHAPES,
    Operations,
    Shape,
    build,
    operations,
)
from benchmarks.support.measures import CLOCKS, start, times_in_turn
from parlai_ext import compat
from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.models.parlai_likelihood import CrossAttention

DTYPES = {'fp32': torch.float32, 'bf16': torch.bfloat16, 'fp16': torch.float16}


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


def largest_difference(
    answers: Sequence[Any], losses: Sequence[Sequence[float]]
) -> float:
    """
    Return the largest difference between a loss of one side and of the other.
    """
    ours = [
        sorted(-sum(row) / len(row) for row in answer.continuations)
        for answer in answers
    ]
    pairs = zip(sum(ours, []), sum(map(list, losses), []), strict=True)
    return max(abs(a - b) for a, b in pairs)


def flops(work: Callable[[], object]) -> int:
    """
    Return the floating-point operations of matrix products.
    """
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def make_questions(shape: Shape, opt: argparse.Namespace) -> list[Question]:
    """
    Return contexts of random tokens, all with the same follow-ups.
    """
    draw = torch.Generator().manual_seed(0)

    def some(n: int) -> tuple[int, ...]:
        return tuple(torch.randint(4, shape.vocabulary, (n,), generator=draw).tolist())

    followups = tuple((*some(4 + i % 6), 2) for i in range(opt.followups))
    return [Question(some(opt.length), followups) for _ in range(opt.contexts)]


def main(opt: argparse.Namespace) -> None:
    """
    Print counts, times and their ratios.
    """
    compat.apply()
    torch.set_num_threads(opt.threads)
    shape = SHAPES[opt.shape]
    questions = make_questions(shape, opt)
    sizes = [len(ids) for ids in questions[0].continuations]
    formula = operations(shape, opt.length, sizes)
    if opt.device.startswith('cuda') and not torch.cuda.is_available():
        print_bounds(formula, None)
        print(f'{opt.shape}: no GPU at hand, nothing measured')
        return
    model = build(shape, opt.device, DTYPES[opt.dtype])
    engine = EncoderDecoder(CrossAttention(model), None, '', Budget(opt.tokens))
    sides: dict[str, Callable[[], Any]] = {'engine': lambda: engine.answer(questions)}
    if not opt.engine_only:
        sides['stock'] = lambda: stock(model, questions)
        difference = largest_difference(sides['engine'](), sides['stock']())
        print(f'largest difference of a mean log-probability: {difference:.1e}')
    for name, work in sides.items():
        counted, expected = flops(work) // len(questions), getattr(formula, name)
        line = f'{counted / 1e9:.2f} GFLOP a context, formula / counted ='
        print(f'{name}: {line} {expected / counted:.4f}')
    times = times_in_turn(sides, opt)
    middle = {name: statistics.median(some) for name, some in times.items()}
    report(opt, questions, times)
    if 'stock' in middle:
        print_bounds(formula, middle['stock'] / middle['engine'])
    print(f'load average: {os.getloadavg()[0]:.1f}; threads: {opt.threads}')
    print(f'clock: {opt.clock}')


def report(
    opt: argparse.Namespace,
    questions: Sequence[Question],
    times: dict[str, list[float]],
) -> None:
    """
    Print how fast each side is, and the memory that it took.
    """
    n = len(questions)
    sizes = [len(ids) for ids in questions[0].continuations]
    for name, some in times.items():
        each, middle = ', '.join(f'{t:.2f}' for t in some), statistics.median(some)
        print(
            f'{name}: {middle / n:.4f} s an utterance, {n / middle:.1f} utterances/s, '
            f'{n * (opt.length + sum(sizes)) / middle:.0f} tokens/s ({each} s)'
        )
    if opt.device.startswith('cuda'):
        gib = torch.cuda.max_memory_allocated() / 2**30
        print(f'{torch.cuda.get_device_name()}, peak memory {gib:.1f} GiB')


def print_bounds(formula: Operations, measured: float | None) -> None:
    """
    Print by how much fewer operations bound the speed-up, and its share of that.
    """
    if measured is not None:
        print(f'measured ratio: {measured:.2f}')
    for name, least in (
        ('keys and values once, no logits for padding', formula.plain),
        ('as computed, trees included', formula.engine),
    ):
        bound = formula.stock / least
        share = '' if measured is None else f'; share of it: {measured / bound:.0%}'
        print(f'bound ({name}): {bound:.2f}{share}')


if __name__ == '__main__':
    start(
        main,
        __doc__,
        choices={'shape': SHAPES, 'dtype': DTYPES, 'clock': CLOCKS},
        shape='blender_90M',
        device='cpu',
        dtype='fp32',
        contexts=8,
        length=128,
        followups=12,
        repeats=5,
        tokens=16384,
        clock='wall',
        threads=2,
        engine_only=False,
    )
