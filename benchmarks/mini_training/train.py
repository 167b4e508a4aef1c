"""
Train the mini zoo from a seed.

    python -m benchmarks.mini_training.train --out FOLDER [--only MODEL …]

Two processes of one thread each share the jobs of `recipe.py`. Every update goes
through the ParlAI agent's own training step.
"""

import argparse
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.mini_training.recipe import JOBS, Job
from benchmarks.support.measures import start
from parlai_ext.core import parse_json

VOCABULARY = 1400
TOKENIZER_DIALOGUES = 4000
REPORT_EVERY = 250


def learn_tokenizer(folder: Path, seed: int) -> None:
    """
    Learn a byte-level byte-pair encoding, which can encode any text.
    """
    from tokenizers import ByteLevelBPETokenizer

    from benchmarks.mini_training.corpus import tokenizer_texts

    lines = tokenizer_texts(seed, TOKENIZER_DIALOGUES)
    tokenizer = ByteLevelBPETokenizer(add_prefix_space=True)
    tokenizer.train_from_iterator(
        # the newline separates utterances and must be one token
        lines + ['\n'] * len(lines),
        vocab_size=VOCABULARY,
        show_progress=False,
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save_model(str(folder), 'bpe')


def build_agent(job: Job, seed: int, tokenizer: Path) -> Any:
    """
    Return the untrained ParlAI agent of ``job``.
    """
    import torch
    from parlai.core.agents import create_agent
    from parlai.core.params import ParlaiParser

    torch.set_num_threads(1)
    torch.manual_seed(1000 * seed + job.seed)
    random.seed(1000 * seed + job.seed)
    opt = ParlaiParser(True, True).parse_kwargs(
        **job.opt,
        dict_tokenizer='bytelevelbpe',
        bpe_vocab=str(tokenizer / 'bpe-vocab.json'),
        bpe_merge=str(tokenizer / 'bpe-merges.txt'),
        dict_file=str(tokenizer / 'unused.dict'),
        datatype='train',
        no_cuda=True,
        verbose=False,
    )
    return create_agent(opt)


def train(job: Job, seed: int, out: str, tokenizer: str) -> dict[str, dict[str, float]]:
    """
    Train one job and save its models; return the facts about each model.
    """
    import parlai.utils.logging as logging

    from benchmarks.mini_training.corpus import all_utterances, batches, mean_loss
    from benchmarks.mini_training.shipping import save_agent

    logging.set_log_level(logging.ERROR)
    agent = build_agent(job, seed, Path(tokenizer))
    by_step = {step: name for name, step in job.keep.items()}
    last, facts, began = max(by_step), {}, time.monotonic()
    data = chain.from_iterable(
        batches(agent, source, 'train', 1000 * seed + job.seed, job.batchsize, updates)
        for source, updates in job.lessons
    )
    for step in range(last + 1):
        if step in by_step:
            name = by_step[step]
            facts[name] = _facts(agent, job, step)
            replies = all_utterances('train', job.seed, job.candidates)
            save_agent(agent, Path(out) / name, replies)
            print(f'{name} is kept: {json.dumps(facts[name])}', flush=True)
        if step < last:
            acts = agent.batch_act(next(data))
            if (step + 1) % REPORT_EVERY == 0:
                rate = (step + 1) / (time.monotonic() - began)
                done = f'{by_step[last]}: {step + 1}/{last}'
                print(f'{done} loss {mean_loss(acts):.3f} {rate:.1f}/s', flush=True)
                agent.reset_metrics()
    return facts


def _facts(agent: Any, job: Job, step: int) -> dict[str, float]:
    """
    Return the facts about a model after so many updates: its size and its held-out
    loss.
    """
    from benchmarks.mini_training.corpus import held_out_loss

    size = sum(tensor.numel() for tensor in agent.model.parameters())
    loss = held_out_loss(agent, job.lessons[-1][0], seed=0)
    return {'updates': step, 'parameters': size, 'loss': round(loss, 4)}


def main(args: argparse.Namespace) -> None:
    """
    Train every job, or those named.
    """
    os.environ['OMP_NUM_THREADS'] = '1'
    jobs = [job for job in JOBS if not args.only or set(args.only) & set(job.keep)]
    with tempfile.TemporaryDirectory() as tokenizer:
        learn_tokenizer(Path(tokenizer), args.seed)
        context = multiprocessing.get_context('spawn')
        with ProcessPoolExecutor(2, mp_context=context) as pool:
            waiting = [
                pool.submit(train, job, args.seed, str(args.out), tokenizer)
                for job in jobs
            ]
            facts = {name: one for w in waiting for name, one in w.result().items()}
    record(facts, args.out / 'training.json')


def record(facts: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """
    Write the facts about these models to a file, which keeps those about others.
    """
    recorded = parse_json(path.read_bytes()) if path.exists() else {}
    text = json.dumps({**recorded, **facts}, indent=1, sort_keys=True) + '\n'
    path.write_text(text, encoding='utf-8', newline='\n')


if __name__ == '__main__':
    start(main, __doc__, required=['out'], out=Path, seed=0, only=[])
