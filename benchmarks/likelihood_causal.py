"""
Time the likelihood engine for causal models on follow-ups.

    python -m benchmarks.likelihood_causal [--threads 2]

Random weights of GPT-2 small's shape: the 63 distinct follow-ups of FED after a context
of random tokens, against one forward pass for each string, as the published program
does it (its loss is that of the whole string, so all logits are made).

Sides take turns; times are medians. Floating-point operations are counted by torch
while each side runs, logits and attention included. FED's list comes from its authors'
repository (``--followups FILE`` for one that is here); its tokens are counted by
GPT-2's own pattern of words and marks, whose pieces are nearly always one token.
"""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GPT2Config

from benchmarks.support.likelihood_sides import compare_sides
from benchmarks.support.measures import CLOCKS, start
from parlai_ext.core import Answer, Question
from parlai_ext.models.likelihood import Causal
from parlai_ext.scoring.likelihood import FollowUps, load_followups

LOCAL_LIST = Path(__file__).parents[2] / 'shared/data/fed/followups_fed_2020.json'
END = 50256
PIECE = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?\w+| ?[^\s\w]+|\s+")
Ids = tuple[int, ...]


def build(device: str, dtype: str) -> Any:
    """
    Return GPT-2 small with random weights.
    """
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(GPT2Config())
    return model.to(device, getattr(torch, dtype)).requires_grad_(False).eval()


def distinct(followups: FollowUps) -> list[str]:
    """
    Return the different follow-ups of all dimensions.
    """
    sides = followups.dimensions.values()
    return list(dict.fromkeys(t for s in sides for t in (*s.positive, *s.negative)))


def tokens_of(texts: Sequence[str]) -> tuple[Ids, ...]:
    """
    Return one number for each word or mark; a follow-up is closed by the end token.
    """
    known: dict[str, int] = {}
    return tuple(
        (*(known.setdefault(p, len(known)) for p in PIECE.findall(f' {text}')), END)
        for text in texts
    )


def random_tokens(n: int, seed: int) -> Ids:
    """
    Return ``n`` tokens, none of them among those of the follow-ups.
    """
    draw = torch.Generator().manual_seed(seed)
    return tuple(torch.randint(1000, END, (n,), generator=draw).tolist())


def one_pass_each(model: Any, question: Question) -> list[float]:
    """
    Return the loss of each whole string, from a forward pass for each of them.
    """
    losses = []
    for continuation in question.continuations:
        ids = torch.tensor([[*question.context, *continuation]], device=model.device)
        with torch.inference_mode():
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        losses.append(float(loss))
    return losses


def engine_losses(answer: Answer) -> list[float]:
    """
    Return the loss of each whole string from an answer that includes its context.
    """
    rows = [(*(answer.context or ()), *row) for row in answer.continuations]
    return [-sum(row) / len(row) for row in rows]


def main(opt: argparse.Namespace) -> None:
    """
    Compare the engine with one pass a follow-up.
    """
    torch.set_num_threads(opt.threads)
    model = build(opt.device, opt.dtype)
    texts = distinct(load_followups(opt.followups))
    tokens = tokens_of(texts)
    sizes = [len(ids) for ids in tokens]
    print(f'{len(tokens)} follow-ups of {sum(sizes)} tokens, {max(sizes)} the longest')
    engine = Causal(model, None, '', positions=1024, tokens=opt.tokens)
    for length in opt.contexts:
        question = Question(random_tokens(length, length), tokens)
        results = compare_sides(
            f'context of {length} tokens',
            {
                'one pass each': lambda q=question: one_pass_each(model, q),  # type: ignore[misc]
                'engine, follow-ups': lambda q=question: engine.answer([q]),  # type: ignore[misc]
                'engine, whole strings': lambda q=question: engine.answer([q], True),  # type: ignore[misc]
            },
            opt,
        )
        [answer] = results['engine, whole strings']
        pairs = zip(engine_losses(answer), results['one pass each'], strict=True)
        print(f'  losses differ by {max(abs(x - y) for x, y in pairs):.0e} at most')


if __name__ == '__main__':
    start(
        main,
        __doc__,
        choices={'clock': CLOCKS},
        followups=str(LOCAL_LIST) if LOCAL_LIST.is_file() else 'fed_2020',
        contexts=[90, 250],
        repeats=5,
        threads=2,
        tokens=4096,
        device='cpu',
        dtype='float32',
        clock='wall',
    )
