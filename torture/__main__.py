"""
Run the parts of the torture suite and print one table.

    python -m torture [NAME …] [--share 0.1] [--seed N] [--trial N]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from parlai_ext.commands.signals import signals_as_interrupt
from parlai_ext.core.errors import nearest
from parlai_ext.view.table import shown_table
from parlai_ext.view.text import duration, one_line
from torture.figure import Figure, Settings, try_all


@dataclass(frozen=True)
class Part:
    """
    A part of the suite.

    :param trials: module and function that prepare its trials.
    :param minutes: that it took on two shared cores (docs/torture.md).
    """

    what: str
    trials: str
    minutes: int


PARTS: dict[str, Part] = {
    # nothing is lost
    'flips': Part('bytes flipped and files cut in a run', 'flips:flips', 8),
    'kills': Part('kills of commands that write', 'disturbed:kills', 21),
    'disk_full': Part('disks that fill up', 'disturbed:full_disks', 5),
    'writers': Part('several writers in one folder', 'disturbed:writers', 7),
    # nothing gets in
    'misbehaving': Part('systems, endpoints that misbehave', 'misbehaving:misfits', 2),
    'strings': Part('strings on pages, in a terminal', 'strings:strings', 3),
    'models': Part('malicious models, in each use', 'models:models', 4),
    'no_network': Part('commands that are to ask nobody', 'no_network:commands', 10),
}
MEMORY = '/dev/shm'  # a folder in memory, for thousands of small files
# of one thread each: a fork takes only the thread that forks
ONE_THREAD = {f'{name}_NUM_THREADS': '1' for name in ('OMP', 'OPENBLAS', 'MKL')}


def report(figures: Iterable[Figure]) -> str:
    """
    Return the figures as a table, and below it every trial that was not held.
    """
    rows = [
        (one.what, f'{one.tried:,}', f'{one.held:,}', duration(one.seconds))
        for one in figures
    ]
    lines = [*shown_table(['what was tried', 'tried', 'held', 'time'], rows).lines()]
    for figure in figures:
        if figure.held < figure.tried:
            lines += ['', f'not held: {figure.what}']
            lines += [f'  {one_line(failure)}' for failure in figure.failures]
    return '\n'.join(lines)


def run_part(name: str, settings: Settings) -> Figure:
    """
    Run a part in a folder of its own and return its figure. A part that breaks down
    counts as a trial that was not held.
    """
    begin = time.perf_counter()
    own = replace(settings, folder=settings.folder / name)
    own.folder.mkdir()
    what = f'{name}: {PARTS[name].what}'
    module, _, function = PARTS[name].trials.partition(':')
    try:
        prepared = getattr(import_module(f'torture.{module}'), function)(own)
        with prepared as (count, trial):
            figure = try_all(name, what, count, trial, own)
    except KeyboardInterrupt:
        figure = Figure(what, 0, 0, complete=False)
    except (Exception, SystemExit) as error:
        line = f'{type(error).__name__}: {error} [{settings.command(name, 0)}]'
        figure = Figure(f'{name} (ended early)', 1, 0, (line,))
    return replace(figure, seconds=time.perf_counter() - begin)


def share(text: str) -> float:
    """
    Return a share above 0 and at most 1.
    """
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f'{text} is not above 0 and at most 1')
    return value


def main(args: Sequence[str] | None = None) -> int:
    """
    Run the parts that are named, or all; return the exit code: 1 if anything was not
    held, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog='python -m torture', description=__doc__)
    names = ', '.join(PARTS)
    parser.add_argument('name', nargs='*', help=f'of {names} (all)')
    parser.add_argument('--share', type=share, default=1.0, help='of the trials (1.0)')
    parser.add_argument('--seed', type=int, default=0, help='of random choices (0)')
    parser.add_argument('--trial', type=int, help='make only this trial again')
    options = parser.parse_args(args)
    for name in options.name:
        if name not in PARTS:
            parser.error(f'no part {name}; {nearest(name, PARTS)}')
    os.environ.update(ONE_THREAD, TOKENIZERS_PARALLELISM='false')
    chosen = list(options.name or PARTS)
    minutes = round(sum(PARTS[n].minutes for n in chosen) * options.share)
    if options.trial is None:
        print(f'about {minutes} minutes on two shared cores', file=sys.stderr)
    figures: list[Figure] = []
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with (
        tempfile.TemporaryDirectory(prefix='torture-', dir=memory) as folder,
        signals_as_interrupt(),
    ):
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
    return int(any(figure.held < figure.tried for figure in figures))


if __name__ == '__main__':
    sys.exit(main())
