"""
Dialogues of people, as lists of turns, in the corpora that benchmarks read.
"""

from pathlib import Path

from parlai_ext.data.corpora import archived_texts, marked_utterances
from parlai_ext.files import json_lines

LAST_TURNS = 6  # of the context of a response, which are kept


def empathetic_dialogues(folder: Path, split: str) -> list[list[str]]:
    """
    Return the dialogues of a part of EmpatheticDialogues: train, valid or test.
    """
    path = folder / 'empathetic_dialogues' / f'derived_{split}.jsonl'
    return [row['utterances'] for _, row in json_lines(path)]


def dailydialog(folder: Path, split: str) -> list[list[str]]:
    """
    Return the dialogues of a part of DailyDialog: train, valid or test.
    """
    name = 'validation' if split == 'valid' else split
    path = folder / 'dailydialog' / f'{name}.zip'
    [text] = archived_texts(path, f'dialogues_{name}.txt')
    return [list(marked_utterances(line)) for line in text.split('\n') if line.strip()]


CORPORA = {'EmpatheticDialogues': empathetic_dialogues, 'DailyDialog': dailydialog}
