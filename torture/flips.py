"""
Flip a byte of a file of a run, or cut the file; then let the commands read it.

A trial holds if a command names the file in one line, or if the files are, in the end,
what they were: some are written anew from others. A file of JSON may differ in its
white space. No command may write anything else than before, and none may end in another
exception than `UserError`.
"""

import json
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from torture.commands import (
    CONFIG,
    JUDGEMENTS,
    RUN,
    differences,
    files_under,
    run_command,
    write_protocols,
)
from torture.figure import Settings, Trial

TRIALS = 10_000
CUT_SHARE = 0.25  # of the trials; the others flip one byte
OTHER = 'distinct'  # the scorer beside the protocol's
# what reads a file, or writes it anew: commands in order, by a part of the file's name;
# those of rankings/ are asked about the other scorer's
READERS: dict[str, str] = {
    '.metadata': 'collect_dialogues',
    'agreement.json': 'validate_scorer',
    'audit': 'report_run audit_run',
    'people/': 'rate_dialogues',
    'ranking.json': 'report_run rank_systems',  # written anew by the second
    'rankings/': 'score_dialogues rank_systems report_run',
    '': 'score_dialogues rank_other rank_systems report_run',
}


@contextmanager
def flips(settings: Settings) -> Iterator[tuple[int, Trial]]:
    """
    Damage the files of a run, one at a time, every file equally often.
    """
    run = make_run(settings.folder)
    intact = files_under(run)
    names = sorted(name for name, data in intact.items() if data)

    def trial(number: int, rng: random.Random) -> str:
        name = names[number % len(names)]
        damaged = damage(intact[name], rng)
        if damaged == intact[name]:
            return ''
        (run / name).write_bytes(damaged)
        try:
            problem = read_damaged(run, name, intact)
        finally:
            restore(run, intact)
        return problem and f'{name}: {problem}'

    yield TRIALS, trial


def make_run(folder: Path) -> Path:
    """
    Make a run that two scorers scored and ranked, with its agreement with people, an
    audit and a page for annotators, and return its folder.
    """
    write_protocols(folder)
    for words in [
        'evaluate_systems',
        'score_other',
        'rate_dialogues',
        'audit_run',
        'validate_scorer',
        'rank_other',
        'report_other',
        'report_run',
    ]:
        run_on(folder, words)
    return folder / RUN


def run_on(folder: Path, words: str, **more: Any) -> None:
    """
    Run a command on the run; ``_other`` stands for those on the other scorer's scores.
    """
    options = {
        'evaluate_systems': {'config': str(folder / CONFIG)},
        'collect_dialogues': {'config': str(folder / CONFIG)},
        'validate_scorer': {'human_scores': str(folder / JUDGEMENTS), 'bootstraps': 5},
        'score_other': {'scorer': OTHER},
        'rank_other': {'scores': OTHER},
        'report_other': {'scores': OTHER},
    }
    stages = {'score': 'dialogues', 'rank': 'systems', 'report': 'run'}
    stage, _, which = words.partition('_')
    name = f'{stage}_{stages[stage]}' if which == 'other' else words
    run_command(name, run_dir=str(folder / RUN), **options.get(words, {}), **more)


def damage(data: bytes, rng: random.Random) -> bytes:
    """
    Return data with one byte changed, or cut off somewhere.
    """
    at = rng.randrange(len(data))
    if rng.random() < CUT_SHARE:
        return data[:at]
    flipped = bytearray(data)
    flipped[at] ^= rng.randrange(1, 256)
    return bytes(flipped)


def read_damaged(run: Path, name: str, intact: dict[str, bytes]) -> str:
    """
    Let commands read a run with a damaged file, until one names it; return what did not
    hold.
    """
    readers = next(READERS[part] for part in READERS if part in name)
    others = name.startswith('rankings/')
    for command in readers.split():
        more = {'scores': OTHER} if others and command[:4] in ('rank', 'repo') else {}
        try:
            run_on(run.parent, command, **more)
        except UserError as error:
            line = str(error)
            if '\n' in line:
                return f'{command} ended in several lines'
            return '' if name in line else f'{command} named something else: {line}'
        changed = set(differences(intact, files_under(run))) - {name}
        if changed:
            return f'{command} wrote something else: {", ".join(sorted(changed))}'
    same = content((run / name).read_bytes()) == content(intact[name])
    return '' if same else 'nobody noticed'


def content(data: bytes) -> object:
    """
    Return what a file of JSON holds; of another file its bytes.
    """
    try:
        return json.loads(data)
    except ValueError:
        return data


def restore(run: Path, intact: dict[str, bytes]) -> None:
    """
    Make the run what it was.
    """
    for name in differences(intact, files_under(run)):
        if name in intact:
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(intact[name])
        else:
            (run / name).unlink()
    for path in run.rglob('*'):
        if path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)
