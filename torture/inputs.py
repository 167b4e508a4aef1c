"""
The commands that are tried (cases.yaml) and the tiny files that they read: a protocol
of systems without a model, judgements, small models.
"""

import contextlib
import csv
import io
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import yaml

from parlai_ext.commands import plugin
from parlai_ext.commands.command import run_directly
from parlai_ext.systems import own_process
from parlai_ext.view.text import csv_text
from tests.support.annotated_answers import HUMAN, TOXIC, answers_file
from tests.support.family_hf import make_model
from tests.support.fed_samples import make_gpt2
from tests.support.judged_samples import turn, written
from tests.support.planted_labels import FRAME
from tests.support.tiny_models import make_generator, sentences

PROTOCOL = """
pairing: bipartite
openers: ext:everyday_openers
num_dialogues: 2
num_turns: 4
score: target
scorer: {name: length}
ranking: {bootstraps: 20}
seed: 0
roster:
  targets:
    - {name: echo, opt: {model: repeat_query}}
    - {name: short, opt: {model: fixed_response, fixed_response: "No."}}
  partners:
    - {name: goon, opt: {model: fixed_response, fixed_response: "I see, go on."}}
    - {name: why, opt: {model: fixed_response, fixed_response: "Why is that?"}}
"""
FED = {
    'scorer': {
        'name': 'fed',
        'judge_model_file': 'zoo:mini/judge/model',
        'followups': 'default',
    },
    'roster': {
        'targets': [{'name': 'small', 'opt': {'model_file': 'zoo:mini/step-50/model'}}],
        'partners': [{'name': 'echo', 'opt': {'model': 'repeat_query'}}],
    },
}
PEOPLE = ('system', 'dimension', 'value', 'rater')
CONFIG, RUN = 'tiny.yaml', 'run'
AGENTS = 'torture.misbehaving_agents'  # a `Talker` and others
GUEST = 'misfit'  # the system that is tried among others
SHARE_OF_MEMORY = 0.1  # of what is free, for a process of a system


@dataclass(frozen=True)
class Case:
    """
    A command to be tried, a row of cases.yaml.
    """

    run: str
    after: str = ''
    once: bool = False

    @property
    def args(self) -> list[str]:
        """
        The words of the command line.
        """
        return self.run.split()


TABLE = yaml.safe_load(Path(__file__).with_name('cases.yaml').read_text())
WRITING, OFFLINE = TABLE['writing'], TABLE['offline']
CASES = {name: Case(**row) for name, row in (WRITING | OFFLINE).items()}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """
    Keep what is printed inside from the terminal.
    """
    nowhere = io.StringIO()
    with contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        yield


def write_inputs(folder: Path) -> None:
    """
    Write what all cases read into a new folder.
    """
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    for name in ('', 'other', 'packs', 'judged', 'gpt2'):
        (folder / name).mkdir()
    write_protocols(folder)
    other = PROTOCOL.replace('name: short', 'name: long').replace('No.', 'Not at all.')
    (folder / 'other' / CONFIG).write_text(other)
    talks = [sentences(5, seed) for seed in range(12)]
    chats = [
        (d, 'ab'[t % 2], text)
        for d, talk in enumerate(talks)
        for t, text in enumerate(talk)
    ]
    write_rows(folder / 'chats.csv', ('dialogue_id', 'speaker', 'text'), chats)
    lines = ''.join(f'{json.dumps({"dialogue": talk})}\n' for talk in talks)
    (folder / 'talk.jsonl').write_text(lines)
    (folder / 'talk.txt').write_text(
        '\n'.join(' __eou__ '.join([*t, '']) for t in talks)
    )
    toxic = [(k, f'you grunk {k}' if k % 2 else f'tea {k}', 'kind') for k in range(8)]
    write_rows(folder / 'talk.csv', ('id', 'toxic', 'answer'), toxic)
    labels = [(text, int('grunk' in text)) for _, text, _ in toxic]
    write_rows(folder / 'labels.csv', ('text', 'label'), labels)
    old = [('old', k, 'a grunk' if k % 3 else 'tea') for k in range(8)]
    write_rows(folder / 'old.csv', ('system', 'id', 'answer'), old)
    (folder / 'words.txt').write_text('grunk\n')
    judged = [
        turn(
            f'User: {talk[0]}',
            f'System: {" ".join([talk[1]] * (1 + k % 3))}',
            Overall=[k % 5, k % 3],
        )
        for k, talk in enumerate(talks)
    ]
    written(folder / 'judged', *judged)
    _write_filled_sheets(folder)
    make_generator(folder)
    make_gpt2(folder / 'gpt2')
    words = {word for talk in talks for text in talk for word in text.split()}
    # its tokenizer knows the words of a judge's question
    words |= {*FRAME.split()}
    make_model(folder, 'llama', words=words, max_position_embeddings=512)
    logging.disable(logging.NOTSET)  # later parts look for what is logged


def write_protocols(folder: Path) -> None:
    """
    Write protocols, and what people think of their targets.
    """
    (folder / CONFIG).write_text(PROTOCOL)
    fed = {**yaml.safe_load(PROTOCOL), **FED}
    (folder / 'fed.yaml').write_text(yaml.safe_dump(fed))
    rows = [(who, 'Overall', k, f'r{k}') for who in ('echo', 'short') for k in range(3)]
    write_rows(folder / 'human.csv', PEOPLE, rows)


def _write_filled_sheets(folder: Path) -> None:
    words = f'--answers {answers_file(folder)} --out {folder}/exported --human {HUMAN}'
    words += f' --toxic {TOXIC} --num-prompts 6 --num-sheets 2 --human-pairs 6'
    words += ' --toxic-controls 3 --shuffled-controls 3'
    run_directly('export_annotation', words.split())
    (folder / 'filled').mkdir()
    for sheet in sorted((folder / 'exported' / 'send').glob('*.csv')):
        with sheet.open(newline='', encoding='utf-8-sig') as lines:
            rows = list(csv.DictReader(lines))
        filled = [
            [*{**row, 'choice': 'ABT'[k % 3]}.values()] for k, row in enumerate(rows)
        ]
        write_rows(folder / 'filled' / sheet.name, list(rows[0]), filled)


def protocol_of(
    targets: Mapping[str, Any], partners: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """
    Return the protocol with other systems.

    :param targets: the options of each; `None`: it talks as it should.
    """

    def systems(options: Mapping[str, Any]) -> list[dict[str, Any]]:
        talker = {'model': f'{AGENTS}:Talker'}
        return [{'name': name, 'opt': opt or talker} for name, opt in options.items()]

    roster = {
        'targets': systems(targets),
        'partners': systems(partners or {'cem': None}),
    }
    return {**yaml.safe_load(PROTOCOL), 'roster': roster}


def load_libraries(folder: Path) -> None:
    """
    Make a run in this process, in a new folder, so that forked commands have all
    libraries.
    """
    # a fork of a process with OpenMP's threads waits for threads that it lacks
    os.environ.setdefault('OMP_NUM_THREADS', '1')
    torch.set_num_threads(1)
    own_process.SHARE_OF_MEMORY = SHARE_OF_MEMORY
    plugin.register()
    for module in ('parlai_ext.agents.remote.remote', 'httpx2', 'truststore'):
        import_module(module)
    folder.mkdir()
    config = folder / 'protocol.yaml'
    config.write_text(yaml.safe_dump(protocol_of({'ann': None})))
    words = ['--config', str(config), '--run-dir', str(folder / RUN)]
    with quiet():
        run_directly('evaluate_systems', words)


def write_rows(
    path: Path, head: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """
    Write a CSV file.
    """
    path.write_text(csv_text([head, *rows]), encoding='utf-8', newline='')


def differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """
    Return the names of files that are not the same, or not there, in both.
    """
    names = sorted({*before, *after})
    return [name for name in names if before.get(name) != after.get(name)]
