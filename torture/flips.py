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
from collections.abc import Iterator, Sequence
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
READERS: dict[str, Sequence[str]] = {
    '.metadata': ('collect',),
    'agreement.json': ('validate',),
    'audit': ('report', 'audit'),
    'people/': ('rate',),
    'ranking.json': ('report', 'rank'),  # written anew by the second
    'rankings/': ('score', 'rank', 'report'),
    '': ('score', 'rank other', 'rank', 'report'),
}
MAKING = ('evaluate', 'score other', 'rate', 'audit', 'validate', 'rank other')
MAKING += ('report other', 'report')  # the last page shows the audit


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


# a command by its short name, with options beside the folder of the run
Reader = tuple[str, dict[str, Any]]


def commands_of(folder: Path) -> dict[str, Reader]:
    """
    Return the commands that make and read the run; ``other`` is the other scorer's.
    """
    config, other = {'config': str(folder / CONFIG)}, {'scores': OTHER}
    people = {'human_scores': str(folder / JUDGEMENTS), 'bootstraps': 5}
    return {
        'evaluate': ('evaluate_systems', config),
        'collect': ('collect_dialogues', config),
        'score': ('score_dialogues', {}),
        'score other': ('score_dialogues', {'scorer': OTHER}),
        'rank': ('rank_systems', {}),
        'rank other': ('rank_systems', other),
        'report': ('report_run', {}),
        'report other': ('report_run', other),
        'validate': ('validate_scorer', people),
        'audit': ('audit_run', {}),
        'rate': ('rate_dialogues', {}),
    }


def make_run(folder: Path) -> Path:
    """
    Make a run that two scorers scored and ranked, with its agreement with people, an
    audit and a page for annotators, and return its folder.
    """
    write_protocols(folder)
    run, commands = folder / RUN, commands_of(folder)
    for name in MAKING:
        command, options = commands[name]
        run_command(command, run_dir=str(run), **options)
    return run


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


def read_damaged(run: Path, path: str, intact: dict[str, bytes]) -> str:
    """
    Let commands read a run with a damaged file, until one names it; return what did not
    hold.
    """
    commands = commands_of(run.parent)
    for name in next(READERS[part] for part in READERS if part in path):
        other = f'{name} other'
        is_other = (
            path.startswith('rankings/') and other in commands and name != 'score'
        )
        command, options = commands[other if is_other else name]
        try:
            run_command(command, run_dir=str(run), **options)
        except UserError as error:
            line = str(error)
            if '\n' in line:
                return f'{command} ended in several lines'
            return '' if path in line else f'{command} named something else: {line}'
        changed = set(differences(intact, files_under(run))) - {path}
        if changed:
            return f'{command} wrote something else: {", ".join(sorted(changed))}'
    same = content((run / path).read_bytes()) == content(intact[path])
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
