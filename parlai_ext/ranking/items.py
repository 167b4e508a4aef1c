"""
How well scores of items agree with what people said of them: Spearman and Pearson.

An item is an utterance or a dialogue; the 95 % percentile interval is of items drawn
anew, as if each had been drawn by itself. Items of one dialogue are alike, and then the
interval is somewhat too narrow. Resamples of fewer than three different items tell
nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .correlation import FEWEST, NOTHING, spearman
from .table import Floats, plain

BOOTSTRAPS = 2000
CHUNK = 256


def pearson(left: Floats, right: Floats) -> Floats:
    """
    Return Pearson's r of each row; NaN where a side is constant.
    """
    a, b = (side - side.mean(axis=1, keepdims=True) for side in (left, right))
    # a mean is rounded: what it leaves of equal numbers is no spread
    flat = (np.ptp(left, axis=1) == 0) | (np.ptp(right, axis=1) == 0)
    with np.errstate(invalid='ignore', divide='ignore'):
        r = (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    return np.where(flat, np.nan, np.clip(r, -1.0, 1.0))


COEFFICIENTS = {'spearman': spearman, 'pearson': pearson}


def item_agreement(
    scores: Sequence[float],
    human: Sequence[float],
    *,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Correlate two numbers of each item.

    :return: ``{'spearman': {'value', 'low', 'high'}, 'pearson': {…}, 'n'}`` and, where
        a number is `None`, a ``'reason'``.
    """
    both = np.array([scores, human], dtype=np.float64).reshape(2, -1)
    result: dict[str, Any] = {'n': both.shape[1]}
    if reason := _undefined(both):
        return {**result, **dict.fromkeys(COEFFICIENTS, NOTHING), 'reason': reason}
    draws = _draws(both, bootstraps, seed)
    for name, coefficient in COEFFICIENTS.items():
        value = float(coefficient(both[:1], both[1:])[0])
        low, high, reason = _bounds(draws[name])
        result[name] = {'value': plain(value), 'low': low, 'high': high}
        if reason:
            result['reason'] = reason
    return result


def _undefined(both: Floats) -> str | None:
    n = both.shape[1]
    if n < FEWEST:
        return f'{n} items have a score and a human value; {FEWEST} are needed'
    if np.ptp(both[0]) == 0:
        return 'all items have the same score'
    if np.ptp(both[1]) == 0:
        return 'all items have the same human value'
    return None


def _draws(both: Floats, bootstraps: int, seed: int) -> dict[str, Floats]:
    """
    Return each coefficient in every resample, on the same resamples.
    """
    n = both.shape[1]
    rng = np.random.default_rng([seed, 3])
    found: dict[str, list[Floats]] = {name: [] for name in COEFFICIENTS}
    for start in range(0, bootstraps, CHUNK):
        chosen = rng.integers(n, size=(min(CHUNK, bootstraps - start), n))
        different = 1 + (np.diff(np.sort(chosen, axis=1), axis=1) > 0).sum(axis=1)
        few = different < FEWEST
        for name, coefficient in COEFFICIENTS.items():
            values = coefficient(both[0][chosen], both[1][chosen])
            found[name].append(np.where(few, np.nan, values))
    return {name: np.concatenate(parts) for name, parts in found.items()}


def _bounds(draws: Floats) -> tuple[float | None, float | None, str | None]:
    """
    Return the percentile interval of the defined resamples, or why there is none.
    """
    there = draws[~np.isnan(draws)]
    if 2 * len(there) < len(draws):
        return None, None, 'no interval: most resamples have no correlation'
    if np.ptp(there) < 1e-12:
        return None, None, 'no interval: no resample changes the correlation'
    low, high = np.quantile(there, [0.025, 0.975])
    return plain(float(low)), plain(float(high)), None
