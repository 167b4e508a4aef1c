"""
The random numbers that agents draw: of Python, NumPy and PyTorch.
"""

import random
from typing import Any

import numpy as np
import torch


def seed_all(hex_seed: str) -> None:
    """
    Seed all random numbers.

    :param hex_seed: the seed as hexadecimal digits; each library takes as many of the
        last ones as it can.
    """
    seed = int(hex_seed, 16)
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed % 2**63)


# the states of the random numbers of Python, NumPy and PyTorch, as plain data
RandomState = list[list[Any]]
PLACES = 624  # of the numbers that NumPy's generator makes at a time


def random_state() -> RandomState:
    """
    Return the state of all random numbers as plain data, which can be compared.
    """
    version, internal, gauss = random.getstate()
    name, keys, *rest = np.random.get_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    return [
        [version, list(internal), gauss],
        [name, np.asarray(keys).tolist(), *rest],
        [state.tolist() for state in (torch.get_rng_state(), *devices)],
    ]


def set_random_state(state: RandomState) -> None:
    """
    Put all random numbers back to a state that `random_state` returned.

    :raises Exception: for other data.
    """
    (version, internal, gauss), (name, keys, place, *rest), of_torch = state
    if not 0 <= place <= PLACES:  # NumPy would read whatever memory is there
        raise ValueError(f'place {place} of {PLACES} random numbers')
    random.setstate((version, tuple(internal), gauss))
    np.random.set_state((name, np.array(keys, np.uint32), place, *rest))
    host, *devices = (torch.tensor(values, dtype=torch.uint8) for values in of_torch)
    torch.set_rng_state(host)
    if devices:
        torch.cuda.set_rng_state_all(devices)
