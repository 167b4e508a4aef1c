"""
Start a benchmark, measure time and memory, and print rows in Markdown.
"""

import argparse
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch

from parlai_ext.commands.command import one_line_errors

CLOCKS = {'cpu': time.process_time, 'wall': time.perf_counter}


def start(
    main: Callable[[argparse.Namespace], object], doc: str | None, **options: Any
) -> None:
    """
    Run a benchmark with the options of its command line; a mistake of the user is one
    line.

    :param options: of `option_parser`.
    """
    opt = option_parser(doc, **options).parse_args()
    with one_line_errors():
        main(opt)


def option_parser(
    doc: str | None,
    choices: Mapping[str, Collection[str]] | None = None,
    required: Collection[str] = (),
    **options: Any,
) -> argparse.ArgumentParser:
    """
    Return the parser of a benchmark's options.

    :param doc: the benchmark's docstring, which is its help.
    :param choices: of some options.
    :param required: names of options that must be given.
    :param options: name and default. A list or tuple is an option with several values,
        `False` a switch, a type an option without a default.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in options.items():
        flag = f'--{name.replace("_", "-")}'
        if default is False:
            parser.add_argument(flag, action='store_true')
            continue
        several = isinstance(default, list | tuple)
        sample = (default or ('',))[0] if several else default
        parser.add_argument(
            flag,
            type=default if isinstance(default, type) else type(sample),
            default=None if isinstance(default, type) else default,
            nargs='+' if several else None,
            choices=(choices or {}).get(name),
            required=name in required,
            help=None if isinstance(default, type) else f'default: {default}',
        )
    return parser


def times_in_turn(
    sides: Mapping[str, Callable[[], object]], opt: argparse.Namespace
) -> dict[str, list[float]]:
    """
    Return the seconds of each side by the wall's clock, or of CPU time (``opt.clock``),
    ``opt.repeats`` times, the sides in turn.
    """
    clock = CLOCKS[opt.clock]
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(opt.repeats):
        for name, work in sides.items():
            start = clock()
            work()
            if opt.device.startswith('cuda'):
                torch.cuda.synchronize()
            times[name].append(clock() - start)
    return times


def print_row(*cells: object) -> None:
    """
    Print a row of a table in Markdown.
    """
    print(f'| {" | ".join(map(str, cells))} |', flush=True)


def print_head(*headings: object) -> None:
    """
    Print the first two lines of a table in Markdown.
    """
    print_row(*headings)
    print('|---' * len(headings) + '|')
