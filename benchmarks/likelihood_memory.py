"""
Measure the memory of the engine for encoder-decoders over 10,000 utterances.

    python -m benchmarks.likelihood_memory [--device cuda --shape blender_3B]

On the CPU the embedded judge reads texts, each utterance after three others, and the
process's resident memory is looked at after every 250, the first 2,000 aside. On a GPU,
and with ``--shape``, a model of that shape reads token ids. A smaller budget must lower
the peak: activations come from the budget alone.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator

import torch

from benchmarks.support.blender_shapes import SHAPES, build
from benchmarks.support.measures import benchmark_parser, resident
from parlai_ext import compat
from parlai_ext.commands.command import one_line_errors
from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.models.parlai_likelihood import CrossAttention, load_judge

FOLLOWUPS = ('That makes no sense!', "I don't understand.", 'You are boring.', 'What?')
WORDS = ('i', 'you', 'we', 'like', 'made', 'want', 'tea', 'rain', 'books', 'hills')
EACH = 250
WARM = 2000


def texts(n: int) -> Iterator[Question]:
    """
    Yield utterances that are all different, of 3 to 25 words.
    """
    draw = random.Random(0)
    turns = ['hello .', 'hi .', 'good day .']
    for i in range(n):
        words = draw.choices(WORDS, k=draw.randint(3, 25))
        turns = [*turns[-3:], ' '.join([*words, str(i)])]
        yield Question(tuple(turns), FOLLOWUPS)


def ids(n: int, vocabulary: int) -> Iterator[Question]:
    """
    Yield contexts of 20 to 128 tokens.
    """
    draw = random.Random(0)

    def some(length: int) -> tuple[int, ...]:
        return tuple(draw.randrange(4, vocabulary) for _ in range(length))

    followups = tuple((*some(4 + i % 6), 2) for i in range(12))
    for _ in range(n):
        yield Question(some(draw.randint(20, 128)), followups)


def build_engine(opt: argparse.Namespace) -> tuple[EncoderDecoder, Iterator[Question]]:
    """
    Return the engine and its questions.
    """
    if opt.shape is None:
        judge = load_judge('zoo:mini/judge/model', no_cuda=True, tokens=opt.tokens)
        return judge, texts(WARM + opt.utterances)
    shape = SHAPES[opt.shape]
    dtype = torch.bfloat16 if opt.device.startswith('cuda') else torch.float32
    model = CrossAttention(build(shape, opt.device, dtype))
    questions = ids(WARM + opt.utterances, shape.vocabulary)
    return EncoderDecoder(model, None, '', Budget(opt.tokens)), questions


def main() -> None:
    """
    Print memory with the weights alone, then as utterances go through.
    """
    parser = benchmark_parser(__doc__)
    parser.add_argument('--utterances', type=int, default=10_000)
    parser.add_argument('--tokens', type=int, default=16384)
    parser.add_argument('--shape', choices=SHAPES, default=None)
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--threads', type=int, default=1)
    opt = parser.parse_args()
    compat.apply()
    torch.set_num_threads(opt.threads)
    if opt.device.startswith('cuda'):
        if not torch.cuda.is_available():
            print('no GPU at hand, nothing measured')
            return
        opt.shape = opt.shape or 'blender_3B'
    engine, questions = build_engine(opt)
    cuda = opt.device.startswith('cuda')
    memory: Callable[[], int] = torch.cuda.memory_reserved if cuda else resident
    start = memory()
    begin = time.perf_counter()
    sizes = [memory() for _ in answer_in_groups(engine, questions)]
    took = time.perf_counter() - begin
    few = 1000 // EACH
    after = sizes[WARM // EACH :]
    first, last = statistics.median(after[:few]), statistics.median(after[-few:])
    print(f'with weights: {start / 2**20:.0f} MiB, budget {opt.tokens} tokens')
    print(f'after {WARM} utterances: {first / 2**20:.0f} MiB (median of 1,000 more)')
    print(f'after {opt.utterances} more: {last / 2**20:.0f} MiB (of the last 1,000)')
    peak = torch.cuda.max_memory_allocated() if cuda else resident('VmHWM')
    print(f'peak: {peak / 2**20:.0f} MiB')
    print(
        f'growth: {last / first - 1:.2%} ({len(sizes) * EACH / took:.0f} utterances/s)'
    )


def answer_in_groups(
    engine: EncoderDecoder, questions: Iterator[Question]
) -> Iterator[None]:
    """
    Answer `EACH` questions at a time, and yield after each group.
    """
    some: list[Question] = []
    for question in questions:
        some.append(question)
        if len(some) == EACH:
            engine.answer(some)
            some = []
            yield


if __name__ == '__main__':
    with one_line_errors():
        main()
