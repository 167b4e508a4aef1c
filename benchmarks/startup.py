"""
Time `parlai --help` with and without the plug-in, in turns.

    python -m benchmarks.startup [--times 7] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.support.measures import start

START = 'from parlai.__main__ import main; main()'


def seconds(hidden_by: str) -> tuple[float, float]:
    """
    Return the wall and the CPU seconds of `parlai --help`, with the folder
    ``hidden_by`` in front.
    """
    env = {**os.environ, 'PYTHONPATH': hidden_by, 'PYTHONWARNINGS': 'ignore'}
    command = [sys.executable, '-P', '-c', START, '--help']
    begin = time.perf_counter()
    process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit('parlai --help failed; see: python -m parlai_ext doctor')
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime


def measure(times: int) -> dict[str, dict[str, float]]:
    """
    Return the medians of ``times`` starts of each kind, in turns.
    """
    with tempfile.TemporaryDirectory() as folder:
        for package in ('parlai_internal', 'parlai_internal/scripts'):
            Path(folder, package).mkdir()
            Path(folder, package, '__init__.py').touch()
        seconds(folder), seconds('')  # once for the disk
        pairs = [(seconds(folder), seconds('')) for _ in range(times)]
    return {
        'wall': compared([(a[0], b[0]) for a, b in pairs]),
        'cpu': compared([(a[1], b[1]) for a, b in pairs]),
    }


def compared(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """
    Return medians without and with the plug-in, their ratio, and the median difference.
    """
    plain, ours = (median(column) for column in zip(*pairs, strict=True))
    extra = median(b - a for a, b in pairs)
    return {'without': plain, 'with': ours, 'ratio': ours / plain, 'extra': extra}


def main(args: argparse.Namespace) -> None:
    result = measure(args.times)
    print(f'{platform.processor() or platform.machine()}, {os.cpu_count()} cores')
    for kind, row in result.items():
        print(
            f'parlai --help, {kind:4s} seconds: without {row["without"]:.2f}, '
            f'with {row["with"]:.2f}, ratio {row["ratio"]:.3f}, '
            f'median extra {row["extra"]:+.3f}'
        )
    if args.json:
        args.json.write_text(json.dumps(result, indent=2, sort_keys=True) + '\n')


if __name__ == '__main__':
    start(main, __doc__, times=7, json=Path)
