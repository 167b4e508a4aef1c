"""
Time `parlai` without the plug-in, `parlai` with it, and `parlai-ext`, in turns.

    python -m benchmarks.startup [--times 7]
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.support.measures import start

PARLAI = 'from parlai.__main__ import main; main()'
OURS = 'from parlai_ext.__main__ import main; main()'
STARTS = {
    '--help': ['--help'],
    'a typo': ['evalute_systems'],
    'a wrong protocol': ['evaluate_systems', '--config', 'dmeo', '--run-dir', 'x'],
}


def seconds(program: str, args: list[str], hidden_by: str = '') -> tuple[float, float]:
    """
    Return the wall and the CPU seconds of a start, with the folder ``hidden_by`` in
    front.
    """
    env = {**os.environ, 'PYTHONPATH': hidden_by, 'PYTHONWARNINGS': 'ignore'}
    command = [sys.executable, '-P', '-c', program, *args]
    begin = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet)
    _, _, usage = os.wait4(process.pid, 0)
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def main(args: argparse.Namespace) -> None:
    """
    Print the medians of starts of each kind, in turns.
    """
    print(f'{platform.processor() or platform.machine()}, {os.cpu_count()} cores')
    with tempfile.TemporaryDirectory() as folder:
        for package in ('parlai_internal', 'parlai_internal/scripts'):
            Path(folder, package).mkdir()
            Path(folder, package, '__init__.py').touch()
        for name, words in STARTS.items():
            ways = ((PARLAI, words, folder), (PARLAI, words), (OURS, words))
            rounds = [[seconds(*way) for way in ways] for _ in range(args.times + 1)]
            for place, kind in enumerate(('wall', 'cpu')):
                plain, plugin, ours = (
                    median(one[way][place] for one in rounds[1:]) for way in range(3)
                )
                print(
                    f'{name}, {kind} seconds: parlai alone {plain:.2f}, with the '
                    f'plug-in {plugin:.2f} (ratio {plugin / plain:.2f}), parlai-ext '
                    f'{ours:.2f} ({ours / plain:.2f})'
                )


if __name__ == '__main__':
    start(main, __doc__, times=7)
