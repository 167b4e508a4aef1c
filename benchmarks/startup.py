"""
What the plug-in costs at start-up: `parlai --help` with and without it, in turns.

    python benchmarks/startup.py [--times 7] [--json FILE]
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

START = 'from parlai.__main__ import main; main()'


def seconds(hidden_by: str) -> float:
    """
    Return how long `parlai --help` takes, with the folder ``hidden_by`` in front.
    """
    env = {**os.environ, 'PYTHONPATH': hidden_by, 'PYTHONWARNINGS': 'ignore'}
    begin = time.perf_counter()
    command = [sys.executable, '-P', '-c', START, '--help']
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def measure(times: int) -> dict[str, float]:
    """
    Return the medians of ``times`` starts of each kind.
    """
    with tempfile.TemporaryDirectory() as folder:
        for package in ('parlai_internal', 'parlai_internal/scripts'):
            Path(folder, package).mkdir()
            Path(folder, package, '__init__.py').touch()
        seconds(folder), seconds('')  # once for the disk
        pairs = [(seconds(folder), seconds('')) for _ in range(times)]
    plain, ours = (median(column) for column in zip(*pairs, strict=True))
    extra = median(b - a for a, b in pairs)
    return {
        'parlai': plain,
        'with_parlai_ext': ours,
        'ratio': ours / plain,
        'extra': extra,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--times', type=int, default=7, help='starts of each kind (7)')
    parser.add_argument('--json', type=Path, help='also write the numbers here')
    args = parser.parse_args()
    result = measure(args.times)
    print(f'{platform.processor() or platform.machine()}, {os.cpu_count()} cores')
    print(f'parlai --help                  {result["parlai"]:.2f} s')
    print(f'parlai --help with parlai_ext  {result["with_parlai_ext"]:.2f} s')
    print(f'ratio {result["ratio"]:.3f}, median extra {result["extra"]:+.3f} s')
    if args.json:
        args.json.write_text(json.dumps(result, indent=2, sort_keys=True) + '\n')


if __name__ == '__main__':
    main()
