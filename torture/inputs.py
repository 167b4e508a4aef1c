"""
The tables of what is tried (cases.yaml), and the tiny files that commands read.
"""

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from parlai_ext.commands.command import run_directly
from parlai_ext.view import csv_text
from tests.support import judged_samples
from tests.support.annotated_answers import answers_file
from tests.support.family_hf import TEMPLATE, make_model
from tests.support.fed_samples import make_gpt2
from tests.support.planted_labels import FRAME
from tests.support.tiny_models import make_generator, make_ranker, sentences
from tests.support.written import json_in, written


@dataclass(frozen=True)
class Case:
    """
    A command to be tried, a row of cases.yaml.
    """

    run: str
    after: str = ''
    once: bool = False


Words = Mapping[str, Any]  # what words in capitals stand for in cases.yaml
TABLE = yaml.safe_load(Path(__file__).with_name('cases.yaml').read_text())
WRITING, OFFLINE = TABLE['writing'], TABLE['offline']
CASES = {name: Case(**row) for name, row in (WRITING | OFFLINE).items()}


def filled(content: Any, words: Words) -> Any:
    """
    Return a part of cases.yaml with what its words in capitals stand for: texts within
    texts, anything in the place of a whole one.
    """
    if isinstance(content, dict):
        return {filled(key, words): filled(content[key], words) for key in content}
    if isinstance(content, list):
        return [filled(one, words) for one in content]
    if not isinstance(content, str) or content in words:
        return words.get(content, content)
    for word, value in words.items():
        if isinstance(value, str):
            content = content.replace(word, value)
    return content


def put(place: Path, content: Any, words: Words) -> None:
    """
    Make a file what cases.yaml says.
    """
    content = filled(content, words)
    if isinstance(content, dict) and place.exists():
        content = {**json_in(place), **content}
    place.unlink(missing_ok=True)
    if content == 'pipe':
        os.mkfifo(place)
    elif isinstance(content, str) and content.startswith('link '):
        place.symlink_to(content.removeprefix('link '))
    elif content is not None:
        kinds = {'.csv': csv_text, '.yaml': yaml.safe_dump}
        make = kinds.get(place.suffix, lambda content: content)
        written(place.parent, place.name, make(content))


def write_inputs(folder: Path) -> None:
    """
    Write what all cases read into a folder, from now on the working folder.
    """
    os.chdir(folder)
    torch.manual_seed(0)
    for name in ('other', 'packs', 'judged', 'gpt2', 'filled', 'generator', 'ranker'):
        (folder / name).mkdir()
    talks = [sentences(5, seed) for seed in range(12)]
    lines = (' __eou__ '.join([*talk, '']) for talk in talks)
    chats = [(d, 'ab'[t % 2], talks[d][t]) for d in range(12) for t in range(5)]
    files = {
        **TABLE['inputs'],
        'talk.jsonl': [{'dialogue': talk} for talk in talks],
        'talk.txt': '\n'.join(lines),
        'chats.csv': [('dialogue_id', 'speaker', 'text'), *chats],
    }
    for name, content in files.items():
        put(folder / name, content, {})
    judged = [
        judged_samples.turn(
            f'User: {talk[0]}',
            f'System: {" ".join([talk[1]] * (1 + k % 3))}',
            Overall=[k % 5, k % 3],
        )
        for k, talk in enumerate(talks)
    ]
    judged_samples.written(folder / 'judged', *judged)
    answers_file(folder)
    command, *words = CASES['export_annotation'].run.split()
    run_directly(command, words)
    for sheet in Path('set').rename('exported').glob('send/*.csv'):
        head, *rows = csv.reader(sheet.read_text('utf-8-sig').splitlines())
        for k, row in enumerate(rows):
            row[head.index('choice')] = 'ABT'[k % 3]
        put(folder / 'filled' / sheet.name, [head, *rows], {})
    make_generator(folder / 'generator')
    make_ranker(folder / 'ranker')
    make_gpt2(folder / 'gpt2')
    words = {word for talk in talks for text in talk for word in text.split()}
    # its tokenizer knows the words of a judge's question
    words |= {*FRAME.split()}
    make_model(
        folder, 'llama', words=words, template=TEMPLATE, max_position_embeddings=512
    )
