"""
Time `parlai --help` with and without the plug-in, in turns.

    python -m benchmarks.startup [--times 7]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.support.measures import ended, start

START = 'from parlai.__main__ import main; main()'


def seconds(hidden_by: str) -> tuple[float, float]:
    """
    Return the wall and the CPU seconds of `parlai --help`, with the folder
    ``hidden_by`` in front.
    """
    env = {**os.environ, 'PYTHONPATH': hidden_by, 'PYTHONWARNINGS': 'ignore'}
    command = [sys.executable, '-P', '-c', START, '--help']
    begin = time.perf_counter()
    usage = ended(command, env=env, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def main(args: argparse.Namespace) -> None:
    """
    Print the medians of starts of each kind, in turns, and of their difference.
    """
    with tempfile.TemporaryDirectory() as folder:
        for package in ('parlai_internal', 'parlai_internal/scripts'):
            Path(folder, package).mkdir()
            Path(folder, package, '__init__.py').touch()
        seconds(folder), seconds('')  # once for the disk
        pairs = [(seconds(folder), seconds('')) for _ in range(args.times)]
    print(f'{platform.processor() or platform.machine()}, {os.cpu_count()} cores')
    for place, kind in enumerate(('wall', 'cpu')):
        plain, ours = (
            median(one[place] for one in side) for side in zip(*pairs, strict=True)
        )
        extra = median(b[place] - a[place] for a, b in pairs)
        print(
            f'parlai --help, {kind:4s} seconds: without {plain:.2f}, with {ours:.2f}, '
            f'ratio {ours / plain:.3f}, median extra {extra:+.3f}'
        )


if __name__ == '__main__':
    start(main, __doc__, times=7)
