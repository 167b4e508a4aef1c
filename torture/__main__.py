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
from contextlib import closing
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from parlai_ext.commands.signals import signals_as_interrupt
from parlai_ext.core.errors import first_line, nearest
from parlai_ext.view.progress import bar_of
from parlai_ext.view.table import shown_table
from parlai_ext.view.text import duration, one_line
from torture import Trials


@dataclass(frozen=True)
class Part:
    """
    A part of the suite.

    :param trials: module and class of its trials.
    :param minutes: that it took on two shared cores (docs/torture.md).
    """

    what: str
    trials: str
    minutes: int


PARTS: dict[str, Part] = {
    # nothing is lost
    'flips': Part('bytes flipped and files cut in a run', 'flips:Flips', 10),
    'kills': Part('kills of commands that write', 'disturbed:Kills', 16),
    'disk_full': Part('disks that fill up', 'disturbed:FullDisks', 2),
    'writers': Part('several writers in one folder', 'disturbed:Writers', 2),
    # nothing gets in
    'misbehaving': Part('systems, endpoints that misbehave', 'misfits:Misfits', 9),
    'strings': Part('strings on pages, in a terminal', 'strings:Strings', 10),
    'models': Part('malicious models, in each use', 'models:Models', 5),
    'no_network': Part('commands that are to ask nobody', 'disturbed:Traced', 8),
}
MEMORY = '/dev/shm'  # a folder in memory, for thousands of small files
# of one thread each: a fork takes only the thread that forks
ONE_THREAD = {f'{name}_NUM_THREADS': '1' for name in ('OMP', 'OPENBLAS', 'MKL')}


@dataclass(frozen=True)
class Figure:
    """
    The result of a part.

    :param failures: a line for each trial that was not held, with the command that
        makes it again.
    :param complete: False when a signal ended the part.
    """

    what: str
    tried: int
    failures: tuple[str, ...] = ()
    seconds: float = 0.0
    complete: bool = True


@dataclass(frozen=True)
class Settings:
    """
    How much is tried, and where.

    :param folder: for files; it is removed after the suite.
    :param share: of the trials of each part, above 0, at most 1.
    :param seed: decides every random choice.
    :param trial: the number of the only trial to make; all when `None`.
    """

    folder: Path
    share: float = 1.0
    seed: int = 0
    trial: int | None = None

    def numbers(self, count: int) -> list[int]:
        """
        Return the numbers of the trials to make, of a part that has ``count``.
        """
        if self.trial is not None:
            return [self.trial] if 0 <= self.trial < count else []
        size = min(count, max(1, round(count * self.share)))
        return sorted(random.Random(self.seed).sample(range(count), size))

    def command(self, part: str, number: int) -> str:
        """
        Return the command that makes one trial again.
        """
        return f'python -m torture {part} --seed {self.seed} --trial {number}'


def try_all(part: str, trials: Trials, settings: Settings) -> Figure:
    """
    Make the trials of a part and count those that were held.

    An exception of a trial is a trial that was not held. After Ctrl-C the figure is
    that of the trials until then.
    """
    failures: list[str] = []
    tried, complete = 0, True
    numbers = settings.numbers(trials.count)
    with bar_of(part, len(numbers), unit='trial') as bar:
        for number in numbers:
            # random numbers that depend on nothing else
            rng = random.Random(f'{settings.seed} {part} {number}')
            try:
                problem = trials.trial(number, rng)
            except KeyboardInterrupt:
                complete = False
                break
            except Exception as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                where = f'{Path(place.filename).name}:{place.lineno}'
                problem = f'{type(error).__name__} at {where}: {first_line(error)}'
            tried += 1
            if problem:
                failures.append(f'{problem} [{settings.command(part, number)}]')
            bar.set_postfix_str(f'{len(failures)} not held', refresh=False)
            bar.update(1)
    return Figure(part, tried, tuple(failures), complete=complete)


def run_part(name: str, settings: Settings) -> Figure:
    """
    Run a part in a folder of its own and return its figure. A part that breaks down
    counts as a trial that was not held.
    """
    begin = time.perf_counter()
    folder = settings.folder / name
    folder.mkdir()
    what = f'{name}: {PARTS[name].what}'
    module, _, kind = PARTS[name].trials.partition(':')
    try:
        with closing(getattr(import_module(f'torture.{module}'), kind)(folder)) as part:
            figure = replace(try_all(name, part, settings), what=what)
    except KeyboardInterrupt:
        figure = Figure(what, 0, complete=False)
    except (Exception, SystemExit) as error:
        line = f'{type(error).__name__}: {error} [{settings.command(name, 0)}]'
        figure = Figure(f'{name} (ended early)', 1, (line,))
    return replace(figure, seconds=time.perf_counter() - begin)


def report(figures: Iterable[Figure]) -> str:
    """
    Return the figures as a table, and below it every trial that was not held.
    """
    rows = [
        (
            one.what,
            f'{one.tried:,}',
            f'{one.tried - len(one.failures):,}',
            duration(one.seconds),
        )
        for one in figures
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
    names = ', '.join(PARTS)
    parser.add_argument('name', nargs='*', help=f'of {names} (all)')
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
    minutes = round(sum(PARTS[name].minutes for name in chosen) * options.share)
    if options.trial is None:
        print(f'about {minutes} minutes on two shared cores', file=sys.stderr)
    figures: list[Figure] = []
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix='torture-', dir=memory) as folder,
        signals_as_interrupt(),
    ):
        # what commands note about records that they made
        os.environ['XDG_CONFIG_HOME'] = f'{folder}/configuration'
        settings = Settings(Path(folder), options.share, options.seed, options.trial)
        for name in chosen:
            figures.append(run_part(name, settings))
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
