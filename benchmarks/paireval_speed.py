"""
Time PairEval through the likelihood engine against padded batches of 8 in file order.

    python -m benchmarks.paireval_speed --judge-model-file FOLDER --comparisons PATH

Responses with three comparisons in both orders, six prompts each; with --runs 5, as the
paper reports, thirty. The padded side is how PairEval's authors run it: prompts of a
tokenizer, padded on the left, eight at a time in the order of the file, the logits of
the last position. Both sides load the same weights and give the same probabilities,
which is checked. Sides take turns; times are medians.
"""

import argparse
import math
import os
import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.support.measures import CLOCKS, start, times_in_turn
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Question
from parlai_ext.data.corpora import CORPORA, read_corpus
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.candidates import Candidate
from parlai_ext.scoring.label_prompts import pair_prompt
from parlai_ext.scoring.paireval import PairEval

BATCH = 8


def drawn_items(args: argparse.Namespace) -> list[ScoringItem]:
    """
    Return the last turns of dialogues after all that was said before.
    """
    dialogues = read_corpus(args.corpus, args.comparisons, 'validation')
    usable = [turns for turns in dialogues if len(turns) >= 2]
    chosen = random.Random(1).sample(usable, args.items)
    return [ScoringItem(turns[:-1], turns[-1]) for turns in chosen]


def file_order(scorer: PairEval, items: Sequence[ScoringItem]) -> list[Question]:
    """
    Return the prompts of each response in turn, both orders of a comparison together.
    """
    turns = scorer.options.context_turns
    questions = []
    for item in items:
        judged = Candidate(item.context[-turns:], item.response or '')
        for run in scorer.runs:
            for one in run:
                for pair in ((judged, one), (one, judged)):
                    questions.append(scorer.tokens.question(pair_prompt(*pair)))
    return questions


def padded_scores(network: Any, questions: Sequence[Question]) -> list[float]:
    """
    Return P(first label) among the two of each question, from padded batches.
    """
    chances = []
    for place in range(0, len(questions), BATCH):
        batch = questions[place : place + BATCH]
        width = max(len(question.context) for question in batch)
        pads = [width - len(question.context) for question in batch]
        ids = [
            [0] * pad + list(map(int, question.context))
            for pad, question in zip(pads, batch, strict=True)
        ]
        seen = torch.tensor([[0] * pad + [1] * (width - pad) for pad in pads])
        with torch.inference_mode():
            logits = network(
                input_ids=torch.tensor(ids, device=network.device),
                attention_mask=seen.to(network.device),
                position_ids=(seen.cumsum(1) - 1).clamp(min=0).to(network.device),
                use_cache=False,
                logits_to_keep=1,
            ).logits[:, -1]
        for row, question in zip(logits, batch, strict=True):
            (first,), (second,) = question.continuations
            chances.append(
                1 / (1 + math.exp(float(row[int(second)] - row[int(first)])))
            )
    return chances


def paired_means(chances: Sequence[float], n: int) -> list[float]:
    """
    Return the score of each response from the chances of its ``n`` prompts, of which
    every second one shows it as B.
    """
    better = [1 - p if place % 2 else p for place, p in enumerate(chances)]
    return [math.fsum(better[i : i + n]) / n for i in range(0, len(better), n)]


def main(args: argparse.Namespace) -> None:
    """
    Print the times of both sides, their ratio, and how much their scores differ.
    """
    torch.set_num_threads(args.threads)
    section = {
        'judge_model_file': args.judge_model_file,
        'comparisons': args.comparisons,
        'corpus': args.corpus,
        'runs': args.runs,
    }
    scorer = PairEval.from_section(section, ModelHandle(Machine(no_cuda=True)))
    scorer.load_models()
    network = scorer.models.likelihood(args.judge_model_file).model
    items = drawn_items(args)
    questions = file_order(scorer, items)
    n = len(questions) // len(items)
    results: dict[str, list[Any]] = {}
    sides: dict[str, Callable[[], object]] = {
        'padded': lambda: results.update(padded=padded_scores(network, questions)),
        'engine': lambda: results.update(engine=scorer.checked_scores(items)),
    }
    times = times_in_turn(sides, args)
    tokens = sum(len(question.context) for question in questions)
    print(f'{len(items)} responses, {len(questions)} prompts, {tokens} tokens')
    for side, each in times.items():
        middle = statistics.median(each)
        print(f'  {side}: {middle:.2f} s, {len(items) / middle:.2f} responses/s')
    ratio = statistics.median(times['padded']) / statistics.median(times['engine'])
    print(f'ratio: {ratio:.2f} (load average {os.getloadavg()[0]:.1f})')
    values = [score.values['Overall'] for score in results['engine']]
    pairs = zip(paired_means(results['padded'], n), values, strict=True)
    print(f'largest difference of a score: {max(abs(a - b) for a, b in pairs):.1e}')


if __name__ == '__main__':
    start(
        main,
        __doc__,
        {'corpus': CORPORA, 'clock': CLOCKS},
        ['judge_model_file', 'comparisons'],
        judge_model_file=str,
        comparisons=str,
        corpus='dailydialog',
        items=24,
        runs=1,
        repeats=3,
        threads=1,
        clock='cpu',
        device='cpu',
    )
