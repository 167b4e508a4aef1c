"""
Options that several commands share, said once.

A default of `None` means "not given": the protocol file's value holds.
"""

from __future__ import annotations

import argparse
import math
from typing import Any


def positive(text: str) -> int:
    """
    Read a whole number of at least 1.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f'a number from 1 is expected, not {text!r}')
    return int(text)


def share(text: str) -> float:
    """
    Read a number between 0 and 1.
    """
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f'a share from 0 to 1 expected, not {text!r}')
    return found


def gigabytes(text: str) -> float:
    """
    Read a size above 0.
    """
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not 0 < size < math.inf:
        raise argparse.ArgumentTypeError(f'gigabytes above 0 expected, not {text!r}')
    return size


OPTIONS: dict[str, dict[str, Any]] = {
    '--config': {'help': 'protocol: a shipped name (demo, …) or a YAML file'},
    '--run-dir': {'help': 'the run folder'},
    '--roster': {'help': 'roster: a shipped name or a YAML file'},
    '--pairing': {'help': 'bipartite, self_play or all_play_all'},
    '--openers': {'help': 'task that gives the opening utterances (ext:smalltalk, …)'},
    '--openers-file': {'help': 'CSV with columns conv_id, utterance_idx, utterance'},
    '--num-dialogues': {'type': positive, 'help': 'dialogues a pair'},
    '--num-turns': {'type': int, 'help': 'utterances a dialogue, given ones included'},
    '--seed': {'type': int, 'help': 'chooses the openers, and sampled replies'},
    '--batchsize': {
        'type': positive,
        'default': 64,
        'help': 'dialogues (or contexts) that go through a model together',
    },
    '--datapath': {'help': "ParlAI's data folder (default: ParlAI's own choice)"},
    '--no-cuda': {'type': 'bool', 'default': False, 'help': 'use the CPU'},
    '--fp16': {'type': 'bool', 'default': None, 'help': 'half precision on a GPU'},
    '--add-target': {
        'action': 'append',
        'help': 'one more target: NAME=MODEL_FILE[,key=value…], or a YAML/JSON file',
    },
    '--judge-model-file': {'help': 'the model inside the scorer'},
    '--followups': {'help': 'follow-up set: a shipped name, fed_2020, or a file'},
    '--human-scores': {'help': 'CSV: system,dimension,value[,rater,dialogue_id]'},
    '--rule': {'help': 'what ranks: mean (scores) or tournament (games won)'},
    '--rating': {
        'help': 'of a tournament: openskill, trueskill, bradley_terry, 3-1-0, 2-1-0 or '
        'sum_of_ranks'
    },
    '--shuffles': {
        'type': positive,
        'help': 'orders of the games over which openskill and trueskill average (3)',
    },
    '--dry-run': {
        'type': 'bool',
        'nargs': '?',
        'const': True,
        'default': False,
        'help': 'say what would be done and stop',
    },
    '--skip-missing': {
        'type': 'bool',
        'nargs': '?',
        'const': True,
        'default': False,
        'help': 'leave out systems whose model cannot be had',
    },
    '--max-failed-share': {
        'type': float,
        'help': 'a system with more failed dialogues is listed, not ranked (0.05)',
    },
    '--max-truncated-share': {
        'type': share,
        'help': 'of a system’s contexts that were too long for the judge; above it, '
        'its scores are marked as not comparable (0.2)',
    },
    '--bootstraps': {'type': positive, 'help': 'resamples behind each interval'},
    '--max-gpu-memory': {
        'type': gigabytes,
        'metavar': 'GB',
        'help': 'gigabytes that the weights of loaded systems may take (GPU, or RAM '
        'without one)',
    },
    '--trust-model-code': {
        'action': 'append',
        'metavar': 'FILE',
        'help': 'a model file that may run code when it is read (default: none may)',
    },
    '--preflight': {
        'type': 'bool',
        'nargs': '?',
        'const': True,
        'default': False,
        'help': 'two dialogues a system first; empty, copied or raising replies stop '
        'the run, and so does a system that cannot be loaded, unless --skip-missing '
        'leaves it out',
    },
    '--pilot': {
        'type': 'bool',
        'nargs': '?',
        'const': True,
        'default': False,
        'help': 'play and score a sample, say what the whole run will take (time, '
        'memory, money), and stop; the run compares itself with that at its end',
    },
}

# what decides who talks to whom, over what and for how long
PLAN = (
    '--config',
    '--run-dir',
    '--roster',
    '--pairing',
    '--openers',
    '--openers-file',
    '--num-dialogues',
    '--num-turns',
    '--seed',
    '--batchsize',
    '--add-target',
    '--skip-missing',
)
MACHINE = (
    '--datapath',
    '--no-cuda',
    '--fp16',
    '--max-gpu-memory',
    '--trust-model-code',
)
# what ranks
RULE = ('--rule', '--rating', '--shuffles')
# what can be tried before a long run
TRIALS = ('--preflight', '--pilot')


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """
    Add the shared options called ``names`` to ``parser``.
    """
    for name in names:
        parser.add_argument(name, **OPTIONS[name])
