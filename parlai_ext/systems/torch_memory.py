"""
Recognises memory that has run out, gives freed memory back to the system, and counts
the weights of a network.
"""

import ctypes
from typing import Any

import torch

from parlai_ext.core import message_of


def is_out_of_memory(error: BaseException | None) -> bool:
    """
    True if an error means that memory has run out; on a CPU, only its text says so.
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and (
        "can't allocate memory" in message_of(error)
    )


def give_back() -> None:
    """
    Return freed CPU memory to the operating system.

    glibc keeps it in pieces that later tensors fit into or not, so that a process
    grows by a fifth or by a quarter. Other C libraries have no such call.
    """
    trim = getattr(ctypes.CDLL(None), 'malloc_trim', None)
    if trim is not None:
        trim(0)


def count_weights(network: Any) -> int | None:
    """
    Return how many weights a network has; `None` for what is no network.

    Of weights in 4 bits, several are in one element of a tensor: transformers knows.
    """
    if hasattr(network, 'num_parameters'):
        return int(network.num_parameters())
    if not isinstance(network, torch.nn.Module):
        return None
    return sum(one.numel() for one in network.parameters())
