"""
Dialogues of people, as lists of turns, in the corpora that benchmarks read.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path


def empathetic_dialogues(folder: Path, split: str) -> list[list[str]]:
    """
    Return the dialogues of a part of EmpatheticDialogues: train, valid or test.
    """
    path = folder / 'empathetic_dialogues' / f'derived_{split}.jsonl'
    lines = path.read_text(encoding='utf-8').split('\n')
    return [json.loads(line)['utterances'] for line in lines if line]


def dailydialog(folder: Path, split: str) -> list[list[str]]:
    """
    Return the dialogues of a part of DailyDialog: train, validation or test.
    """
    with zipfile.ZipFile(folder / 'dailydialog' / f'{split}.zip') as archive:
        [name] = [n for n in archive.namelist() if n.endswith(f'dialogues_{split}.txt')]
        text = archive.read(name).decode('utf-8')
    rows = [line.split('__eou__') for line in text.split('\n') if line.strip()]
    return [[turn.strip() for turn in row if turn.strip()] for row in rows]
