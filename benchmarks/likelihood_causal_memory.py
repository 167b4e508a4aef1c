"""
Measure the memory of the likelihood engine for causal models, and its growth.

    python -m benchmarks.likelihood_causal_memory [--utterances 10000]

First the peak of GPT-2 small's shape (random weights), each budget in a process of its
own: 12 contexts of 250 tokens with 63 follow-ups. Then a smaller model answers 12,000
utterances, all different, each after up to seven others; resident memory is looked at
after every 250, the first 2,000 aside.
"""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice

import torch
from transformers import AutoModelForCausalLM, GPT2Config

from benchmarks.support.measures import benchmark_parser, resident
from parlai_ext.commands.command import one_line_errors
from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.causal import Causal

SMALL = {'vocab_size': 8000, 'n_embd': 64, 'n_layer': 2, 'n_head': 2}
EACH, WARM = 250, 2000
BUDGETS = (1024, 2048, 4096, 8192)
MIB = 2**20


def questions(n: int, vocabulary: int) -> Iterator[Question]:
    """
    Yield the turns of dialogues, of 3 to 40 tokens, with the same follow-ups.
    """
    draw = random.Random(0)

    def some(length: int) -> tuple[int, ...]:
        return tuple(draw.randrange(vocabulary) for _ in range(length))

    followups = tuple(some(4 + i % 6) for i in range(11))
    context: tuple[int, ...] = ()
    for i in range(n):
        context = (context if i % 8 else ()) + some(draw.randint(3, 40))
        yield Question(context, followups)


def growth(n: int) -> None:
    """
    Print resident memory as utterances go through.
    """
    model = AutoModelForCausalLM.from_config(GPT2Config(**SMALL)).eval()
    engine = Causal(model, None, '', positions=1024)
    stream = questions(WARM + n, SMALL['vocab_size'])
    sizes = []
    while some := list(islice(stream, EACH)):
        engine.answer(some)
        sizes.append(resident())
    after = sizes[WARM // EACH :]
    few = max(1, 1000 // EACH)
    first, last = statistics.median(after[:few]), statistics.median(after[-few:])
    print(f'after {WARM} utterances: {first / MIB:.1f} MiB (median of 1,000 more)')
    print(f'after {n} more: {last / MIB:.1f} MiB (of the last 1,000)')
    print(f'growth: {last / first - 1:.2%}')


def peak(tokens: int) -> None:
    """
    Print the memory that a budget of tokens takes beside the weights.
    """
    model = AutoModelForCausalLM.from_config(GPT2Config()).eval()
    draw = random.Random(0)

    def some(length: int) -> tuple[int, ...]:
        return tuple(draw.randrange(50_000) for _ in range(length))

    followups = tuple(some(4 + i % 9) for i in range(63))
    batch = [Question(some(250), followups) for _ in range(12)]
    engine = Causal(model, None, '', positions=1024, tokens=tokens)
    engine.answer([Question((1, 2), ((3, 4),))])
    before = resident()
    engine.answer(batch)
    more = (resident('VmHWM') - before) / MIB
    weights = sum(p.numel() * p.element_size() for p in model.parameters()) / MIB
    print(
        f'budget {tokens}: {more:.0f} MiB beside {weights:.0f} MiB of weights, '
        f'{more * 1024 / tokens:.0f} KiB a token'
    )


def main() -> None:
    """
    Print peaks by budget, then growth.
    """
    parser = benchmark_parser(__doc__)
    parser.add_argument('--utterances', type=int, default=10_000)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--budget', type=int, help='the peak of this one alone')
    opt = parser.parse_args()
    torch.set_num_threads(opt.threads)
    if opt.budget:
        peak(opt.budget)
        return
    for tokens in BUDGETS:
        command = [sys.executable, '-m', __spec__.name, '--budget', str(tokens)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(done.stdout.strip(), flush=True)
    growth(opt.utterances)


if __name__ == '__main__':
    with one_line_errors():
        main()
