"""
How long work takes and how much memory it has, for the benchmarks of the likelihood.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path

import torch


def seconds(work: Callable[[], object], opt: argparse.Namespace) -> float:
    """
    Return how long the work takes, or how long processors work on it.
    """
    clock = time.process_time if opt.clock == 'cpu' else time.perf_counter
    start = clock()
    work()
    if opt.device.startswith('cuda'):
        torch.cuda.synchronize()
    return clock() - start


def resident(line: str = 'VmRSS') -> int:
    """
    Return the bytes that the process has in memory, or (``VmHWM``) had at most.
    """
    status = Path('/proc/self/status').read_text(encoding='ascii')
    found = re.search(rf'{line}:\s+(\d+)', status)
    assert found is not None
    return 1024 * int(found[1])
