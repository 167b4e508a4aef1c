"""
Measure time and memory; parse the options of a benchmark.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path

import torch


def benchmark_parser(doc: str | None) -> argparse.ArgumentParser:
    """
    Return a parser that shows a benchmark's docstring as its help.
    """
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def seconds(work: Callable[[], object], opt: argparse.Namespace) -> float:
    """
    Return the wall-clock seconds that the work takes, or CPU seconds (``opt.clock``).
    """
    clock = time.process_time if opt.clock == 'cpu' else time.perf_counter
    start = clock()
    work()
    if opt.device.startswith('cuda'):
        torch.cuda.synchronize()
    return clock() - start


def resident(line: str = 'VmRSS') -> int:
    """
    Return the bytes of memory that the process has now, or had at most (``VmHWM``).
    """
    status = Path('/proc/self/status').read_text(encoding='ascii')
    match = re.search(rf'{line}:\s+(\d+)', status)
    assert match is not None
    return 1024 * int(match[1])
