"""
Time a small model with one thread and with two, on an idle and on a busy machine.

    python -m benchmarks.threads [--runs 5]

Collects 80 dialogues of one model of the mini zoo with 1 and with 2 threads in turn,
alone and beside two busy programs, and prints medians and their ratio. The default of
one thread for small models rests on this (docs/performance.md).
"""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import yaml

from benchmarks.support.measures import start
from parlai_ext import zoo_configs

TARGET = 'step-450'


def protocol(folder: Path) -> Path:
    """
    Write the demo with one target and return its path.
    """
    demo = yaml.safe_load(zoo_configs.path('protocols', 'demo').read_text())
    mini = yaml.safe_load(zoo_configs.path('rosters', 'mini').read_text())
    mini['targets'] = [one for one in mini['targets'] if one['name'] == TARGET]
    demo |= {'roster': mini, 'reference': None}
    path = folder / 'one.yaml'
    path.write_text(yaml.safe_dump(demo))
    return path


def seconds(config: Path, threads: int) -> float:
    """
    Return how long it takes to collect with this many threads.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, '-m', 'parlai_ext', 'collect_dialogues']
        command += ['--config', str(config), '--run-dir', folder + '/run']
        began = time.perf_counter()
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            env={**os.environ, 'OMP_NUM_THREADS': str(threads)},
        )
        return time.perf_counter() - began


@contextlib.contextmanager
def busy(programs: int) -> Iterator[None]:
    """
    Let this many other programs want a core.
    """
    loops = [
        subprocess.Popen([sys.executable, '-c', 'while True: pass'])
        for _ in range(programs)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()


def main(opt: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = protocol(Path(folder))
        for name, programs in (('idle', 0), ('busy', 2)):
            with busy(programs):
                pairs = [
                    (seconds(config, 1), seconds(config, 2)) for _ in range(opt.runs)
                ]
            one, two = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            print(f'{name}: 1 thread {one:.1f} s, 2 threads {two:.1f} s,', end=' ')
            print(f'ratio {ratio:.2f} (medians of {opt.runs}, pair by pair)')


if __name__ == '__main__':
    start(main, __doc__, runs=5)
