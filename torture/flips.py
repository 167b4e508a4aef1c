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
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from torture.figure import Figure, Settings, try_all
from torture.tiny_run import (
    CONFIG,
    OTHER,
    differences,
    files_under,
    make_run,
    run_command,
    validation,
)

TRIALS = 10_000
CUT_SHARE = 0.25  # of the trials; the others flip one byte


def figure(settings: Settings) -> Figure:
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
        return f'{name}: {problem}' if problem else ''

    what = 'bytes flipped and files cut in a scored and ranked run'
    return try_all('flips', what, TRIALS, trial, settings)


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
    for command, options in readers(name, run.parent):
        try:
            run_command(command, {'run_dir': str(run), **options})
        except UserError as error:
            return problem_of_line(str(error), name, command)
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


def readers(name: str, folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """
    Return the commands that read a file, or write it anew, with options, in order.
    """
    if name.endswith('.metadata'):
        return [('collect_dialogues', {'config': str(folder / CONFIG)})]
    scores = {'scores': OTHER} if name.startswith('rankings/') else {}
    rank, report = ('rank_systems', scores), ('report_run', scores)
    if name == 'agreement.json':
        return [('validate_scorer', validation(folder))]
    if name.startswith('audit'):
        return [('report_run', {}), ('audit_run', {})]
    if name.startswith('people/'):
        return [('rate_dialogues', {})]
    if name.endswith('ranking.json'):
        return [report, rank]  # in this order: it is written anew by the second
    both = [*([('rank_systems', {'scores': OTHER})] if not scores else []), rank]
    return [('score_dialogues', {}), *both, report]


def problem_of_line(line: str, name: str, command: str) -> str:
    """
    Return what is wrong with the line about a damaged file; '' for a right one.
    """
    if '\n' in line:
        return f'{command} ended in several lines'
    if name not in line:
        return f'{command} named something else: {line}'
    return ''


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
