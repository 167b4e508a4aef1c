"""
Run the parts of the torture suite and print one table.

    python -m torture [NAME …] [--share 0.1] [--seed N] [--trial N]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from parlai_ext.commands.signals import signals_as_interrupt
from parlai_ext.core.display import duration, one_line, pad_cell
from parlai_ext.core.errors import nearest
from torture.figure import Figure, PartInterrupted, Settings

# every part is a module with `figure(settings) -> Figure`, in the order of the table;
# with the minutes that it took on two shared cores (docs/torture.md)
PARTS: dict[str, int] = {
    # nothing is lost
    'flips': 21,
    'kills': 18,
    'disk_full': 9,
    'writers': 5,
    # nothing gets in
    'misbehaving': 3,
    'strings': 2,
    'models': 3,
    'no_network': 19,
}
WHAT_WIDTH = 58  # columns
MEMORY = '/dev/shm'  # a folder in memory, for thousands of small files
# of one thread each: a fork takes only the thread that forks
ONE_THREAD = {f'{name}_NUM_THREADS': '1' for name in ('OMP', 'OPENBLAS', 'MKL')}


def table(figures: Sequence[Figure]) -> str:
    """
    Return the figures as a table, and below it every trial that was not held.
    """
    heads = f'{"what was tried":{WHAT_WIDTH}} {"tried":>7} {"held":>7}  time'
    lines = [heads, '-' * (WHAT_WIDTH + 22), *map(row, figures)]
    for figure in figures:
        if figure.held < figure.tried:
            lines += ['', f'not held: {figure.what}']
            lines += [f'  {one_line(failure)}' for failure in figure.failures]
    return '\n'.join(lines)


def row(figure: Figure) -> str:
    """
    Return the line of a figure in the table.
    """
    what = pad_cell(figure.what, WHAT_WIDTH)
    counts = f'{figure.tried:7,} {figure.held:7,}'
    return f'{what} {counts}  {duration(figure.seconds)}'


def forecast(names: Sequence[str], settings: Settings) -> str:
    """
    Return about how long these parts take, in words.
    """
    if settings.trial is not None:
        return f'one trial of {", ".join(names)}'
    minutes = {name: PARTS[name] * settings.share for name in names}
    each = ', '.join(f'{name} {round(m) or "< 1"}' for name, m in minutes.items())
    total = max(1, round(sum(minutes.values())))
    return f'about {total} minutes on two shared cores ({each})'


def run_parts(names: Sequence[str], settings: Settings) -> tuple[list[Figure], bool]:
    """
    Return the figures of these parts, and whether all parts came to their end. Each is
    printed at once, too, in case that the machine does not live to see the table.
    """
    figures: list[Figure] = []
    for name in names:
        begin = time.perf_counter()
        try:
            own = replace(settings, folder=settings.folder / name)
            own.folder.mkdir()
            figure = import_module(f'torture.{name}').figure(own)
            seconds = time.perf_counter() - begin
            figures.append(replace(figure, seconds=seconds))
        except PartInterrupted as interrupted:
            return [*figures, interrupted.figure], False
        except KeyboardInterrupt:
            return figures, False
        except (Exception, SystemExit) as error:
            # a part that cannot even begin must not pass for one that held
            line = f'{type(error).__name__}: {error} [{settings.command(name, 0)}]'
            seconds = time.perf_counter() - begin
            figures.append(Figure(f'{name} (ended early)', 1, 0, (line,), seconds))
        print(row(figures[-1]), file=sys.stderr, flush=True)
    return figures, True


def parser() -> argparse.ArgumentParser:
    """
    Return the parser of the command line.
    """
    result = argparse.ArgumentParser(
        prog='python -m torture',
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    result.add_argument(
        'name', nargs='*', type=part_name, help=f'of {", ".join(PARTS)} (all)'
    )
    result.add_argument(
        '--share', type=share, default=1.0, help='of the trials of each part (1.0)'
    )
    result.add_argument('--seed', type=int, default=0, help='of random choices (0)')
    result.add_argument(
        '--trial', type=int, help='make only the trial with this number again'
    )
    return result


def part_name(text: str) -> str:
    """
    Return the name of a part of the suite.
    """
    if text not in PARTS:
        raise argparse.ArgumentTypeError(f'no part {text}; {nearest(text, PARTS)}')
    return text


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
    options = parser().parse_args(args)
    os.environ.update(ONE_THREAD, TOKENIZERS_PARALLELISM='false')
    memory = MEMORY if os.access(MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix='torture-', dir=memory) as folder:
        settings = Settings(Path(folder), options.share, options.seed, options.trial)
        names = list(options.name or PARTS)
        print(forecast(names, settings), file=sys.stderr, flush=True)
        with signals_as_interrupt():
            figures, ended = run_parts(names, settings)
    print(table(figures))
    if not ended:
        rest = ', '.join(names[len(figures) :]) or 'none'
        print(f'interrupted: the last part is not complete; not there: {rest}')
        return 130
    return int(any(figure.held < figure.tried for figure in figures))


if __name__ == '__main__':
    sys.exit(main())
