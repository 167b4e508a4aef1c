"""
The table that every statistic starts from: dialogue means by target, partner, opener.

``values[t, p, j]`` is the mean score of target ``t`` in its dialogue with partner ``p``
over opener ``j``; NaN where there is no such dialogue or it has no score. Self-play has
one partner; in all-play-all the partners are the opponents and the diagonal is NaN.
Where a pair plays several games over one opener, ``j`` runs over all first games, then
over all second games.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DIGITS = 12


def check_table(values: Floats, systems: Sequence[str]) -> Floats:
    """
    Return ``values`` as a float array that fits ``systems``.

    :raises ValueError: on a wrong shape, an infinite score or a name given twice.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 3 or len(table) != len(systems):
        raise ValueError(
            f'values has shape {table.shape}; ({len(systems)}, partners, openers) '
            'would fit the systems'
        )
    if np.isinf(table).any():
        raise ValueError('values holds an infinite score; NaN says "no score"')
    if len(set(systems)) != len(systems):
        raise ValueError('systems names one system twice')
    return table


def system_means(values: Floats) -> Floats:
    """
    Return each system's mean over its scored dialogues, NaN when it has none.
    """
    means = np.full(len(values), np.nan)
    for t, row in enumerate(values):
        scored = row[~np.isnan(row)]
        if len(scored):
            # fsum is exact: neither order nor missing cells change the mean
            means[t] = math.fsum(scored) / len(scored)
    return means


def round_off_noise(values: Floats) -> Floats:
    """
    Return ``values`` without their last digits, so that equal values stay tied.
    """
    scale = float(np.nanmax(np.abs(values), initial=0.0))
    if scale == 0.0:
        return values
    _, exponent = math.frexp(scale)
    unit = math.ldexp(1.0, exponent)
    return np.round(values / unit, DIGITS) * unit


def json_number(value: float) -> float | None:
    """
    Return a number fit for a file: twelve significant digits, `None` for NaN.

    The digits beyond come and go with the number of threads of a matrix product.
    """
    return None if math.isnan(value) else float(f'{value:.{DIGITS}g}')
