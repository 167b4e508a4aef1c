"""
Time `import_judgements` for each answer, on synthetic ratings of dialogues.

    python -m benchmarks.import_judgements_speed [--answers 100000]

Each import runs in a process of its own; the time and memory of an import of 100
answers are subtracted.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from benchmarks.support.measures import ended, start
from parlai_ext.files.csv_file import csv_text

SYSTEMS = [f'system{k}' for k in range(5)]
ITEMS = 500  # dialogues that all annotators judge
FEW = 100


def write_answers(path: Path, number: int) -> None:
    """
    Write ratings of dialogues.
    """
    rows: list[list[object]] = [
        ['system', 'dimension', 'value', 'rater', 'dialogue_id']
    ]
    for place in range(number):
        annotator, item = divmod(place, ITEMS)
        name = SYSTEMS[item % len(SYSTEMS)]
        value, rater = random.randint(1, 5), f'annotator {annotator}'
        rows.append([name, 'Overall', value, rater, f'{name} {item}'])
    path.write_text(csv_text(rows), encoding='utf-8', newline='')


def measured(number: int) -> tuple[float, float]:
    """
    Return the CPU seconds and the largest memory in GB of an import.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_answers(folder / 'answers.csv', number)
        command = [sys.executable, '-m', 'parlai_ext', 'import_judgements']
        command += ['--format', 'csv', '--answers', str(folder / 'answers.csv')]
        with (folder / 'printed').open('w') as out:
            usage = ended([*command, '--out', str(folder / 'out')], stdout=out)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def main(opt: argparse.Namespace) -> None:
    """
    Print the time of an answer.
    """
    few_seconds, few_memory = measured(FEW)
    seconds, memory = measured(opt.answers)
    print(
        f'{opt.answers:,} answers in {seconds:.1f} CPU s: '
        f'{1000 * (seconds - few_seconds) / (opt.answers - FEW):.4f} ms each; '
        f'{memory:.2f} GB (of {FEW}: {few_seconds:.1f} s, {few_memory:.2f} GB)'
    )


if __name__ == '__main__':
    start(main, __doc__, answers=100_000)
