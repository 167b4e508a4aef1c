"""
The commands that are tried (commands.yaml) and the tiny files that they read: a
protocol of four systems without a model, judgements, small models.
"""

import contextlib
import csv
import io
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from parlai_ext.commands.command import find_command
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
CONFIG, RUN, JUDGEMENTS = 'tiny.yaml', 'run', 'human.csv'


@dataclass(frozen=True)
class Case:
    """
    A command to be tried, a row of commands.yaml.
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


_table = yaml.safe_load(Path(__file__).with_name('commands.yaml').read_text())
CASES, OFFLINE = (
    {name: Case(**row) for name, row in _table[part].items()}
    for part in ('writing', 'offline')
)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """
    Keep what is printed inside from the terminal.
    """
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        yield


def run_command(name: str, **options: Any) -> None:
    """
    Run a command in this process; nothing is shown.

    :raises UserError: what would be its one line.
    """
    with quiet():
        find_command(name).main(**options)


def write_inputs(folder: Path) -> None:
    """
    Write what all cases read into a new folder.
    """
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    for name in ('', 'other', 'packs', 'judged', 'gpt2'):
        (folder / name).mkdir()
    write_protocols(folder)
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
    write_filled_sheets(folder)
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
    if (folder / 'other').exists():
        other = PROTOCOL.replace('name: short', 'name: long').replace(
            'No.', 'Not at all.'
        )
        (folder / 'other' / CONFIG).write_text(other)
    head = ('system', 'dimension', 'value', 'rater')
    rows = [(who, 'Overall', k, f'r{k}') for who in ('echo', 'short') for k in range(3)]
    write_rows(folder / JUDGEMENTS, head, rows)


def write_filled_sheets(folder: Path) -> None:
    """
    Write a set of answers to be annotated, and two sheets that somebody filled in.
    """
    run_command(
        'export_annotation',
        answers=[str(answers_file(folder))],
        out=str(folder / 'exported'),
        human=HUMAN,
        toxic=TOXIC,
        num_prompts=6,
        num_sheets=2,
        human_pairs=6,
        toxic_controls=3,
        shuffled_controls=3,
    )
    (folder / 'filled').mkdir()
    for sheet in sorted((folder / 'exported' / 'send').glob('*.csv')):
        with sheet.open(newline='', encoding='utf-8-sig') as lines:
            rows = list(csv.DictReader(lines))
        filled = [{**row, 'choice': 'ABT'[k % 3]} for k, row in enumerate(rows)]
        values = [list(row.values()) for row in filled]
        write_rows(folder / 'filled' / sheet.name, list(filled[0]), values)


def write_rows(
    path: Path, head: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """
    Write a CSV file.
    """
    path.write_text(csv_text([head, *rows]), encoding='utf-8', newline='')


def files_under(folder: Path) -> dict[str, bytes]:
    """
    Return every file under a folder by its name, but for locks.
    """
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob('*'))
        if path.is_file() and path.name != '.lock'
    }


def differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """
    Return the names of files that are not the same, or not there, in both.
    """
    names = sorted({*before, *after})
    return [name for name in names if before.get(name) != after.get(name)]


def wrong_lines(errors: str) -> str:
    """
    Return what is wrong with what a refused or ended command has written to standard
    error; '' if it is one error line beside progress bars and warnings.
    """
    lines = [line for line in errors.split('\n') if line.startswith('error: ')]
    if 'Traceback' in errors:
        return f'a traceback: {last_line(errors)}'
    return '' if len(lines) == 1 else f'{len(lines)} error lines'


def last_line(text: str) -> str:
    """
    Return the last line of a text.
    """
    return text.strip().split('\n')[-1]
