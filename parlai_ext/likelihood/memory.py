"""
Memory that has run out, and how torch says so.
"""

from __future__ import annotations

import torch


def is_out_of_memory(error: BaseException | None) -> bool:
    """
    Tell whether memory has run out; of a CPU's, torch tells in words alone.
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
