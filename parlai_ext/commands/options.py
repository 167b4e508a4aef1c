"""
Options that several commands share, said once.

A default of `None` means "not given": the protocol file's value holds.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from parlai_ext.core.options import SWITCH, add_flags, gigabytes, positive
from parlai_ext.core.pairings import schemes_help
from parlai_ext.core.ranking_options import RankingOptions

OPTIONS: dict[str, dict[str, Any]] = {
    '--config': {
        'metavar': 'NAME|FILE',
        'type': os.path.expanduser,
        'help': 'protocol: a shipped name (demo, …) or a YAML file; options come first',
    },
    '--run-dir': {
        'metavar': 'FOLDER',
        'type': os.path.expanduser,  # a shell leaves the ~ of `--run-dir=~/runs`
        'help': 'the run folder, new or begun',
    },
    '--roster': {
        'metavar': 'NAME|FILE',
        'type': os.path.expanduser,
        'help': 'roster: a shipped name or a YAML file',
    },
    '--pairing': {'metavar': 'NAME', 'help': schemes_help()},
    '--openers': {
        'metavar': 'TASK',
        'help': 'task that gives the opening utterances (ext:smalltalk, …)',
    },
    '--openers-file': {
        'metavar': 'FILE',
        'type': os.path.expanduser,
        'help': 'CSV with columns conv_id, utterance_idx, utterance',
    },
    '--num-dialogues': {
        'metavar': 'N',
        'type': positive,
        'help': 'dialogues of each pair',
    },
    '--num-turns': {
        'metavar': 'N',
        'type': int,
        'help': 'utterances of a dialogue, the given ones included',
    },
    '--seed': {
        'metavar': 'N',
        'type': int,
        'help': 'chooses the openers, and sampled replies',
    },
    '--batchsize': {
        'metavar': 'N',
        'type': positive,
        'default': 64,
        'help': 'dialogues, or contexts, that go through a model together (64)',
    },
    '--datapath': {
        'metavar': 'FOLDER',
        'type': os.path.expanduser,
        'help': "ParlAI's data folder (default: ParlAI's own choice)",
    },
    '--no-cuda': {**SWITCH, 'help': 'use the CPU even where there is a GPU'},
    '--fp16': {
        **SWITCH,
        'default': None,
        'help': "half precision on a GPU (default: as the model's own options say)",
    },
    '--add-target': {
        'metavar': 'SYSTEM',
        'action': 'append',
        'help': 'one more target: NAME=MODEL_FILE[,key=value…], NAME=agent:CLASS[,…], '
        'FILE.yaml, or the name of a shipped system; may be given several times',
    },
    '--judge-model-file': {
        'metavar': 'MODEL',
        'type': os.path.expanduser,
        'help': 'the model inside the scorer: a model file, zoo:…, or hf:REPOSITORY',
    },
    '--followups': {
        'metavar': 'NAME|FILE',
        'type': os.path.expanduser,
        'help': 'follow-up set: a shipped name, fed_2020, or a file',
    },
    '--human-scores': {
        'metavar': 'FILE',
        'type': os.path.expanduser,
        'help': 'CSV: system,dimension,value[,rater,dialogue_id]',
    },
    '--dry-run': {
        **SWITCH,
        'help': 'say what would be done and stop',
    },
    '--skip-missing': {
        **SWITCH,
        'help': 'leave out systems whose model cannot be had',
    },
    '--max-gpu-memory': {
        'type': gigabytes,
        'metavar': 'GB',
        'help': 'what the weights of loaded systems may take (of RAM without a GPU)',
    },
    '--trust-model-code': {
        'action': 'append',
        'metavar': 'FILE',
        'help': 'a model file that may run code when it is read, else none may; may be '
        'given several times',
    },
    '--preflight': {
        **SWITCH,
        'help': 'two dialogues a system first; empty, copied or raising replies stop '
        'the run, and so does a system that cannot be loaded, unless --skip-missing '
        'leaves it out',
    },
    '--pilot': {
        **SWITCH,
        'help': 'play and score a sample, say what the whole run will take (time, '
        'memory, money), and stop; the run compares itself with that at its end',
    },
}

RANKING_TITLE = 'ranking (default: as the protocol says)'
# titles under which `--help` shows them
GROUPS = {
    'the run': ('--config', '--run-dir'),
    'who talks': ('--roster', '--add-target', '--skip-missing'),
    'dialogues (default: as the protocol says)': (
        *('--pairing', '--openers', '--openers-file'),
        *('--num-dialogues', '--num-turns', '--seed'),
    ),
    'scores (default: as the protocol says)': ('--judge-model-file', '--followups'),
    RANKING_TITLE: ('--human-scores',),
    'before a long run': ('--dry-run', '--preflight', '--pilot'),
    'machine': (
        *('--batchsize', '--datapath', '--no-cuda', '--fp16'),
        *('--max-gpu-memory', '--trust-model-code'),
    ),
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
# how systems are ranked: the options of `RankingOptions`, and a reference
RANKING = ('ranking', '--human-scores')
# what can be tried before a long run
TRIALS = ('--preflight', '--pilot')


def add_options(parser: argparse.ArgumentParser, *names: str) -> None:
    """
    Add the shared options called ``names`` to ``parser``, each in its group.
    """
    groups = {group.title: group for group in parser._action_groups}
    for title, members in GROUPS.items():
        if title == RANKING_TITLE and 'ranking' in names:
            skip = ('--partners',)  # a protocol's own matter
            add_flags(parser, RankingOptions, title=title, not_given=True, skip=skip)
            groups = {group.title: group for group in parser._action_groups}
        for name in (name for name in members if name in names):
            if title not in groups:
                groups[title] = parser.add_argument_group(title)
            groups[title].add_argument(name, **OPTIONS[name])


def add_scorer_options(parser: argparse.ArgumentParser) -> None:
    """
    Add what chooses the scorer: its name, any option of it, and the flags of FED's own.
    """
    from parlai_ext.scoring.fed import Fed, FedOptions

    group = parser.add_argument_group('scores (default: as the protocol says)')
    group.add_argument(
        '--scorer',
        metavar='NAME',
        help='fed, chatmatch, my_module:MyScorer, file.py:MyScorer, or a protocol, '
        'whose ranking rule goes with it (default: the run’s)',
    )
    group.add_argument(
        '--scorer-option',
        action='append',
        metavar='KEY=VALUE',
        help='an option of the scorer; may be given several times',
    )
    add_flags(group, FedOptions, prefix=Fed.name, not_given=True)
