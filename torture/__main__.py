"""
Run the parts of the torture suite and print one table.

    python -m torture [NAME …] [--share 0.1] [--seed N] [--trial N]
"""

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name

from parlai_ext.commands.signals import signals_as_interrupt
from parlai_ext.core import first_line, nearest
from parlai_ext.view import duration, one_line, shown_table
from parlai_ext.view.progress import bar_of

# by part: the class of its trials, and what is tried
PARTS = {
    'flips': ('disturbed:Flips', 'bytes flipped and files cut in a run'),
    'kills': ('disturbed:Kills', 'kills of commands that write'),
    'disk_full': ('disturbed:FullDisks', 'disks that fill up'),
    'writers': ('disturbed:Writers', 'several writers in one folder'),
    'misbehaving': ('misfits:Misfits', 'systems, endpoints that misbehave'),
    'strings': ('strings:Strings', 'strings on pages, in a terminal'),
    'models': ('models:Models', 'malicious models, in each use'),
    'no_network': ('disturbed:Traced', 'commands that are to ask nobody'),
}
MEMORY = '/dev/shm'  # a folder in memory, for thousands of small files
# of one thread each: a fork takes only the thread that forks
ONE_THREAD = {f'{name}_NUM_THREADS': '1' for name in ('OMP', 'OPENBLAS', 'MKL')}


@dataclass
class Figure:
    """
    The result of a part, with a line for each trial that was not held; it is not
    complete when a signal ended it.
    """

    what: str
    tried: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = True


def chosen_trials(count: int, options: argparse.Namespace) -> list[int]:
    """
    Return the numbers of the trials to make, of a part that has ``count``: the one that
    is asked for, or a share of all.
    """
    if options.trial is not None:
        return [options.trial] if 0 <= options.trial < count else []
    size = min(count, max(1, round(count * options.share)))
    return sorted(random.Random(options.seed).sample(range(count), size))


def try_all(part: str, parent: Path, options: argparse.Namespace) -> Figure:
    """
    Make the trials of a part in a new folder in ``parent`` and count those that held.

    A trial that raises was not held; a part that breaks down counts as one such trial.
    After Ctrl-C the figure is that of the trials until then.
    """
    trials, what = PARTS[part]
    figure, begin, number = Figure(f'{part}: {what}'), time.perf_counter(), 0

    def count(problem: str | BaseException) -> None:
        if isinstance(problem, BaseException):
            place = traceback.extract_tb(problem.__traceback__)[-1]
            where = f'{Path(place.filename).name}:{place.lineno}'
            problem = f'{type(problem).__name__} at {where}: {first_line(problem)}'
        figure.tried += 1
        if problem:
            again = f'python -m torture {part} --seed {options.seed} --trial {number}'
            figure.failures.append(f'{problem} [{again}]')

    folder = parent / part
    folder.mkdir()
    try:
        with resolve_name(f'torture.{trials}')(folder) as made:
            numbers = chosen_trials(made.count, options)
            with bar_of(part, len(numbers), unit='trial') as bar:
                for number in numbers:
                    # random numbers that depend on nothing else
                    rng = random.Random(f'{options.seed} {part} {number}')
                    try:
                        count(made.trial(number, rng))
                    except Exception as error:
                        count(error)
                    not_held = f'{len(figure.failures)} not held'
                    bar.set_postfix_str(not_held, refresh=False)
                    bar.update(1)
    except KeyboardInterrupt:
        figure.complete = False
    except (Exception, SystemExit) as error:
        figure.what += ' (ended early)'
        count(error)
    figure.seconds = time.perf_counter() - begin
    return figure


def report(figures: Iterable[Figure]) -> str:
    """
    Return the figures as a table, and below it every trial that was not held.
    """
    rows = [
        (f.what, f'{f.tried:,}', f'{f.tried - len(f.failures):,}', duration(f.seconds))
        for f in figures
    ]
    lines = [*shown_table(['what was tried', 'tried', 'held', 'time'], rows).lines()]
    for figure in figures:
        if figure.failures:
            lines += ['', f'not held: {figure.what}']
            lines += [f'  {one_line(failure)}' for failure in figure.failures]
    return '\n'.join(lines)


def main(args: Sequence[str] | None = None) -> int:
    """
    Run the parts that are named, or all; return the exit code: 1 if anything was not
    held, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog='python -m torture', description=__doc__)
    parser.add_argument('name', nargs='*', help=f'of {", ".join(PARTS)} (all)')
    parser.add_argument('--share', type=float, default=1.0, help='of the trials (1.0)')
    parser.add_argument('--seed', type=int, default=0, help='of random choices (0)')
    parser.add_argument('--trial', type=int, help='make only this trial again')
    options = parser.parse_args(args)
    for name in options.name:
        if name not in PARTS:
            parser.error(f'no part {name}; {nearest(name, PARTS)}')
    if not 0 < options.share <= 1:
        parser.error(f'--share: {options.share} is not above 0 and at most 1')
    os.environ.update(ONE_THREAD, TOKENIZERS_PARALLELISM='false')
    chosen = options.name or list(PARTS)
    figures: list[Figure] = []
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix='torture-', dir=memory) as folder,
        signals_as_interrupt(),
    ):
        # what commands note about records that they made
        os.environ['XDG_CONFIG_HOME'] = f'{folder}/configuration'
        for name in chosen:
            figures.append(try_all(name, Path(folder), options))
            # at once, too, in case that the machine does not live to see the table
            print(report(figures[-1:]), file=sys.stderr, flush=True)
            if not figures[-1].complete:
                break
    print(report(figures))
    if not figures[-1].complete:
        rest = ', '.join(chosen[len(figures) :])
        print(f'interrupted: the last part is not complete; not there: {rest}')
        return 130
    return int(any(figure.failures for figure in figures))


if __name__ == '__main__':
    sys.exit(main())
