"""
Measure the memory of the likelihood engines over 10,000 utterances.

    python -m benchmarks.likelihood_memory [--device cuda --shape blender_3B]
    python -m benchmarks.likelihood_memory --causal

The process's resident memory is looked at after every 250 utterances, the first 2,000
aside. On the CPU the embedded judge reads texts, each utterance after three others. On
a GPU, and with ``--shape``, an encoder-decoder of that shape reads token ids. A smaller
budget (``--tokens``) must lower the peak: activations come from the budget alone.

``--causal``: first the peak of GPT-2 small's shape (random weights), each budget in a
process of its own (``--budget``: one of them in this process): 12 contexts of 250
tokens with 63 follow-ups. Then a smaller model answers utterances that are all
different, each after up to seven others.
"""

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GPT2Config

from benchmarks.support.blender_shapes import SHAPES, build
from benchmarks.support.measures import resident, start
from parlai_ext import compat
from parlai_ext.core.nouns import Question
from parlai_ext.models.likelihood.budget import Budget
from parlai_ext.models.likelihood.causal import Causal
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder
from parlai_ext.models.parlai_likelihood import CrossAttention, load_judge

FOLLOWUPS = ('That makes no sense!', "I don't understand.", 'You are boring.', 'What?')
WORDS = ('i', 'you', 'we', 'like', 'made', 'want', 'tea', 'rain', 'books', 'hills')
SMALL = {'vocab_size': 8000, 'n_embd': 64, 'n_layer': 2, 'n_head': 2}
EACH, WARM, FEW = 250, 2000, 1000
BUDGETS = (1024, 2048, 4096, 8192)
MIB = 2**20


def texts() -> Iterator[Question]:
    """
    Yield utterances that are all different, of 3 to 25 words.
    """
    draw = random.Random(0)
    turns = ['hello .', 'hi .', 'good day .']
    for i in count():
        words = draw.choices(WORDS, k=draw.randint(3, 25))
        turns = [*turns[-3:], ' '.join([*words, str(i)])]
        yield Question(tuple(turns), FOLLOWUPS)


def token_ids(vocabulary: int) -> Callable[[int], tuple[int, ...]]:
    """
    Return a function that draws so many tokens.
    """
    draw = random.Random(0)
    return lambda n: tuple(draw.randrange(4, vocabulary) for _ in range(n))


def contexts(vocabulary: int) -> Iterator[Question]:
    """
    Yield contexts of 20 to 128 tokens, all with the same follow-ups.
    """
    draw, some = random.Random(1), token_ids(vocabulary)
    followups = tuple((*some(4 + i % 6), 2) for i in range(12))
    while True:
        yield Question(some(draw.randint(20, 128)), followups)


def dialogues(vocabulary: int) -> Iterator[Question]:
    """
    Yield the turns of dialogues, of 3 to 40 tokens, all with the same follow-ups.
    """
    draw, some = random.Random(1), token_ids(vocabulary)
    followups = tuple(some(4 + i % 6) for i in range(11))
    context: tuple[int, ...] = ()
    while True:
        for i in range(8):
            context = (context if i else ()) + some(draw.randint(3, 40))
            yield Question(context, followups)


def print_peak(tokens: int) -> None:
    """
    Print the memory that a budget of tokens takes beside GPT-2's weights.
    """
    model = AutoModelForCausalLM.from_config(GPT2Config()).eval()
    some = token_ids(50_000)
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


def print_growth(
    engine: Any, questions: Iterator[Question], n: int, cuda: bool
) -> None:
    """
    Print memory with the weights alone, then as utterances go through.
    """
    memory: Callable[[], int] = torch.cuda.memory_reserved if cuda else resident
    print(f'with weights: {memory() / MIB:.1f} MiB')
    begin = time.perf_counter()
    sizes = []
    for _ in range((WARM + n) // EACH):
        engine.answer(list(islice(questions, EACH)))
        sizes.append(memory())
    speed = len(sizes) * EACH / (time.perf_counter() - begin)
    after = sizes[WARM // EACH :]
    few = FEW // EACH
    first, last = statistics.median(after[:few]), statistics.median(after[-few:])
    print(f'after {WARM} utterances: {first / MIB:.1f} MiB (median of 1,000 more)')
    print(f'after {n} more: {last / MIB:.1f} MiB (of the last 1,000)')
    peak = torch.cuda.max_memory_allocated() if cuda else resident('VmHWM')
    print(f'peak: {peak / MIB:.0f} MiB')
    print(f'growth: {last / first - 1:.2%} ({speed:.0f} utterances/s)')


def causal(opt: argparse.Namespace) -> None:
    """
    Print peaks by budget, then growth.
    """
    for tokens in BUDGETS:
        command = [sys.executable, '-m', __spec__.name, '--budget', str(tokens)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        print(done.stdout.strip(), flush=True)
    model = AutoModelForCausalLM.from_config(GPT2Config(**SMALL)).eval()
    engine = Causal(model, None, '', positions=1024)
    print_growth(engine, dialogues(SMALL['vocab_size']), opt.utterances, cuda=False)


def main(opt: argparse.Namespace) -> None:
    """
    Print what was asked for.
    """
    torch.set_num_threads(opt.threads)
    cuda = opt.device.startswith('cuda')
    if opt.budget:
        return print_peak(opt.budget)
    if opt.causal:
        return causal(opt)
    if cuda and not torch.cuda.is_available():
        return print('no GPU at hand, nothing measured')
    compat.apply()
    if cuda or opt.shape:
        shape = SHAPES[opt.shape or 'blender_3B']
        dtype = torch.bfloat16 if cuda else torch.float32
        model = CrossAttention(build(shape, opt.device, dtype))
        engine = EncoderDecoder(model, None, '', Budget(opt.tokens))
        questions = contexts(shape.vocabulary)
    else:
        engine = load_judge('zoo:mini/judge/model', no_cuda=True, tokens=opt.tokens)
        questions = texts()
    print(f'budget {opt.tokens} tokens')
    print_growth(engine, questions, opt.utterances, cuda)


if __name__ == '__main__':
    start(
        main,
        __doc__,
        choices={'shape': SHAPES},
        utterances=10_000,
        tokens=16384,
        shape=str,
        device='cpu',
        threads=1,
        causal=False,
        budget=int,
    )
