"""
How many threads a model of this size is worth on a CPU.

A small model gains little from a second thread and loses much when another program
wants the core: threads that wait for each other spin (benchmarks/threads.py).
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
    Use one thread when all these model files are small; a user's own choice holds.

    What is decided depends on the files alone, not on what is loaded when, so that a
    resumed run computes as an uninterrupted one does.
    """
    if 'OMP_NUM_THREADS' in os.environ:
        return
    there = [path for path in model_files if path is not None and path.is_file()]
    if there and all(path.stat().st_size < SMALL for path in there):
        torch.set_num_threads(1)
