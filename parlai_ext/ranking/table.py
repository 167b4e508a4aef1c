"""
The table every statistic here starts from: dialogue means by target, partner, opener.

``values[t, p, j]`` is the mean score of target ``t`` in its dialogue with partner ``p``
over opener ``j``; NaN where there is no such dialogue or it has no score. Self-play has
one partner; in all-play-all the partners are the opponents and the diagonal is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DIGITS = 12


def dialogue_mean(scores: Iterable[float | None]) -> float | None:
    """
    Return the mean of the utterance scores there are, or `None` when there is none.
    """
    there = [score for score in scores if score is not None]
    return math.fsum(there) / len(there) if there else None


def dense(
    cells: Iterable[tuple[str, str, str, float | None]],
    systems: Sequence[str],
    partners: Sequence[str],
    openers: Sequence[str],
) -> Floats:
    """
    Return the table of ``(target, partner, opener, dialogue mean)`` cells.

    :raises ValueError: when two dialogues fill the same cell.
    """
    values = np.full((len(systems), len(partners), len(openers)), np.nan)
    rows, columns, depths = (
        {name: i for i, name in enumerate(names)}
        for names in (systems, partners, openers)
    )
    seen = set()
    for target, partner, opener, value in cells:
        if (target, partner, opener) in seen:
            raise ValueError(f'two dialogues of {target}, {partner}, opener {opener}')
        seen.add((target, partner, opener))
        if value is not None:
            values[rows[target], columns[partner], depths[opener]] = value
    return values


def checked(values: Floats, systems: Sequence[str]) -> Floats:
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
        there = row[~np.isnan(row)]
        if len(there):
            # fsum: exact, so neither order nor missing cells leave a trace
            means[t] = math.fsum(there) / len(there)
    return means


def settled(values: Floats) -> Floats:
    """
    Return ``values`` without their last digits, so that rounding breaks no tie.
    """
    scale = float(np.nanmax(np.abs(values), initial=0.0))
    if scale == 0.0:
        return values
    _, exponent = math.frexp(scale)
    unit = math.ldexp(1.0, exponent)
    return np.round(values / unit, DIGITS) * unit


def plain(value: float) -> float | None:
    """
    Return a number fit for a file: twelve significant digits, `None` for NaN.

    The digits beyond come and go with the number of threads of a matrix product.
    """
    return None if math.isnan(value) else float(f'{value:.{DIGITS}g}')
