"""
Dialogues of people, as lists of turns, in the corpora that benchmarks read.
"""

import json
from pathlib import Path

from parlai_ext.data.corpora import archived_texts, marked_utterances

LAST_TURNS = 6  # of the context of a response, which are kept


def empathetic_dialogues(folder: Path, split: str) -> list[list[str]]:
    """
    Return the dialogues of a part of EmpatheticDialogues: train, valid or test.
    """
    path = folder / 'empathetic_dialogues' / f'derived_{split}.jsonl'
    lines = path.read_text(encoding='utf-8').split('\n')
    return [json.loads(line)['utterances'] for line in lines if line]


def dailydialog(folder: Path, split: str) -> list[list[str]]:
    """
    Return the dialogues of a part of DailyDialog: train, valid or test.
    """
    name = 'validation' if split == 'valid' else split
    path = folder / 'dailydialog' / f'{name}.zip'
    [text] = archived_texts(path, f'dialogues_{name}.txt')
    return [list(marked_utterances(line)) for line in text.split('\n') if line.strip()]


CORPORA = {'EmpatheticDialogues': empathetic_dialogues, 'DailyDialog': dailydialog}
