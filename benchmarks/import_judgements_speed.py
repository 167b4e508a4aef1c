"""
Time `import_judgements` for each answer, on synthetic answers in three formats.

    python -m benchmarks.import_judgements_speed [--answers 100000] [--formats page csv]

page: pairs on a rating page; csv: ratings; acute_eval: ACUTE-Eval's pairs. Each import
runs in a process of its own; the time and memory of an import of 100 answers are
subtracted.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.support.measures import start
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.rate_dialogues import RateDialogues

SYSTEMS = [f'system{k}' for k in range(5)]
ITEMS = 500  # pairs or dialogues that all annotators judge
FEW = 100


def page_answers(folder: Path, number: int) -> list[str]:
    """
    Make a run and a rating set of it, write the answers files, and return the options
    of the import.
    """
    rows = [
        {
            'dialogue_id': f'{name}-{k}',
            'turns': [{'speaker': s, 'text': f'{k}'} for s in ('p', name) * 2],
        }
        for name in SYSTEMS
        for k in range(ITEMS)
    ]
    source, run = folder / 'chats.jsonl', str(folder / 'run')
    source.write_text(''.join(json.dumps(row) + '\n' for row in rows))
    ImportDialogues.main(dialogues=[str(source)], run_dir=run, humans='p')
    RateDialogues.main(run_dir=run, questionnaire='overall_pair', num_items=ITEMS)
    key = json.loads((folder / 'run/people/rating/key.json').read_bytes())
    items = list(key['items'])
    for annotator in range(-(-number // ITEMS)):
        rng = random.Random(annotator)
        answers = [
            {
                'item': item,
                'dimension': 'Overall',
                'answer': rng.choice('ab'),
                'left': rng.choice('ab'),
                'seconds': round(rng.uniform(2, 20), 2),
            }
            for item in items[: number - annotator * ITEMS]
        ]
        data = {
            'format': 'parlai_ext ratings',
            'rating_set': key['rating_set'],
            'page': 1,
            'annotator': f'annotator {annotator}',
            'saved': annotator,
            'answers': answers,
        }
        (folder / f'answers-{annotator}.json').write_text(json.dumps(data))
    return ['--run-dir', run, '--format', 'page']


def csv_answers(folder: Path, number: int) -> list[str]:
    """
    Write ratings of dialogues, and return the options of the import.
    """
    rows = (
        [name, 'Overall', random.randint(1, 5), f'annotator {k}', f'{name} {item}']
        for k, item, name in _numbered(number, SYSTEMS)
    )
    header = ['system', 'dimension', 'value', 'rater', 'dialogue_id']
    _write(folder / 'answers.csv', header, rows)
    return ['--format', 'csv', '--out', str(folder / 'out')]


def acute_answers(folder: Path, number: int) -> list[str]:
    """
    Write ACUTE-Eval's table, and return the options of the import.
    """
    pairs = [(a, b) for a in SYSTEMS for b in SYSTEMS if a < b]
    rows = (
        [f'annotator {k}', 'Who is better?', *sides, 'False', repr(pair)]
        for k, item, names in _numbered(number, pairs)
        for sides in [random.sample(names, 2)]
        for pair in [
            {
                'speakers_to_eval': list(names),
                'dialogue_ids': [item, item],
                **{n: {'id': f'{n} {item}', 'dialogue': [['x'] * 6]} for n in names},
            }
        ]
    )
    header = ['worker', 'question', 'winner', 'loser', 'is_onboarding', 'pairs_to_eval']
    _write(folder / 'answers.full.csv', header, rows)
    return ['--format', 'acute_eval', '--out', str(folder / 'out')]


def _numbered(number: int, names: list) -> Iterator[tuple]:
    """
    Yield annotator, item and what of the names is judged, `number` times.
    """
    for place in range(number):
        annotator, item = divmod(place, ITEMS)
        yield annotator, item, names[item % len(names)]


def _write(path: Path, header: list[str], rows: Iterator[list]) -> None:
    with path.open('w', encoding='utf-8', newline='') as out:
        csv.writer(out).writerows([header])
        csv.writer(out).writerows(rows)


WRITERS = {'page': page_answers, 'csv': csv_answers, 'acute_eval': acute_answers}


def measured(format: str, number: int) -> tuple[float, float]:
    """
    Return the CPU seconds and the largest memory in GB of an import.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        options = WRITERS[format](folder, number)
        answers = [str(p) for p in sorted(folder.glob('answers*'))]
        command = [sys.executable, '-m', 'parlai_ext', 'import_judgements', *options]
        with (folder / 'printed').open('w') as out:
            process = subprocess.Popen([*command, '--answers', *answers], stdout=out)
            _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit('the import failed')
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 2**20


def main(opt: argparse.Namespace) -> None:
    """
    Print a line for each format.
    """
    for format in opt.formats:
        few_seconds, few_memory = measured(format, FEW)
        seconds, memory = measured(format, opt.answers)
        print(
            f'{format:12} {opt.answers:>9,} answers in {seconds:6.1f} CPU s: '
            f'{1000 * (seconds - few_seconds) / (opt.answers - FEW):.4f} ms each; '
            f'{memory:.2f} GB (of {FEW}: {few_seconds:.1f} s, {few_memory:.2f} GB)',
            flush=True,
        )


if __name__ == '__main__':
    start(main, __doc__, {'formats': WRITERS}, answers=100_000, formats=[*WRITERS])
