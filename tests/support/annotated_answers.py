"""
Made-up answers of three systems and a person, for annotation.
"""

from __future__ import annotations

import csv
from pathlib import Path

SYSTEMS = ('quill', 'raven', 'tern')
HUMAN, TOXIC = 'mary', 'rude'


def answers_file(folder: Path, num_prompts: int = 8) -> Path:
    """
    Write answers whose texts tell which system they are of; return the path.
    """
    path = folder / 'answers.csv'
    with path.open('w', newline='', encoding='utf-8') as out:
        writer = csv.writer(out)
        writer.writerow(['system', 'prompt', 'answer'])
        for k in range(num_prompts):
            for name in (*SYSTEMS, HUMAN, TOXIC):
                writer.writerow([name, f'prompt {k}', f'{code(name)} to {k}'])
    return path


def code(name: str) -> str:
    """
    Return a word that stands for a system in its answers and is not its name.
    """
    return {'quill': 'Q', 'raven': 'R', 'tern': 'T', HUMAN: 'M', TOXIC: 'X'}[name]
