"""
The number of threads for models of a given size on a CPU.

A small model gains little from a second thread, and loses much when another program
needs the core, since threads that wait for each other spin (benchmarks/threads.py).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import torch

# model files below this size run on one thread; the mini zoo's have 2 MB
SMALL = 20_000_000


def fit_threads(model_files: Iterable[Path | None]) -> None:
    """
    Use one thread if all these model files are small. OMP_NUM_THREADS takes precedence.

    The decision depends on the files alone, not on the order of loading, so that a
    resumed run computes as an uninterrupted one does.
    """
    if 'OMP_NUM_THREADS' in os.environ:
        return
    files = [path for path in model_files if path is not None and path.is_file()]
    if files and all(path.stat().st_size < SMALL for path in files):
        torch.set_num_threads(1)
