"""
How well scores of items agree with what people said of them: Spearman and Pearson.

An item is an utterance or a dialogue; the 95 % percentile interval is of items drawn
anew. Utterances of one dialogue are alike: they are one group and drawn together.
Resamples of fewer than three different groups tell nothing and are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from parlai_ext.ranking.correlation import FEWEST, NOTHING, spearman
from parlai_ext.ranking.table import Floats, plain

Places = npt.NDArray[np.int64]

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
    groups: Sequence[int] | None = None,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
) -> dict[str, Any]:
    """
    Correlate two numbers of each item.

    :param groups: of which group each item is; `None` is each one of its own.
    :return: ``{'spearman': {'value', 'low', 'high'}, 'pearson': {…}, 'n'}`` and, where
        a number is `None`, a ``'reason'``.
    """
    both = np.array([scores, human], dtype=np.float64).reshape(2, -1)
    result: dict[str, Any] = {'n': both.shape[1]}
    if reason := _undefined(both):
        return {**result, **dict.fromkeys(COEFFICIENTS, NOTHING), 'reason': reason}
    members = _members(range(both.shape[1]) if groups is None else groups)
    draws = _draws(both, members, bootstraps, seed)
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


def _members(groups: Sequence[int]) -> list[Places]:
    """
    Return the places of the items of each group, in order of first appearance.
    """
    found: dict[int, list[int]] = {}
    for place, group in enumerate(groups):
        found.setdefault(group, []).append(place)
    return [np.array(places) for places in found.values()]


def _resamples(
    members: Sequence[Places], bootstraps: int, seed: int
) -> Iterator[tuple[Places, Places]]:
    """
    Yield ``[resample, item]`` places, and how many different groups a resample has.

    Groups of one size make wide arrays; unequal ones make one resample at a time.
    """
    rng = np.random.default_rng([seed, 3])
    n = len(members)
    even = len({len(places) for places in members}) == 1
    for start in range(0, bootstraps, CHUNK):
        chosen = rng.integers(n, size=(min(CHUNK, bootstraps - start), n))
        different = 1 + (np.diff(np.sort(chosen, axis=1), axis=1) > 0).sum(axis=1)
        if even:
            yield np.stack(members)[chosen].reshape(len(chosen), -1), different
            continue
        for row, count in zip(chosen, different, strict=True):
            places = np.concatenate([members[i] for i in row])
            yield places[None], np.array([count])


def _draws(
    both: Floats, members: Sequence[Places], bootstraps: int, seed: int
) -> dict[str, Floats]:
    """
    Return each coefficient in every resample, on the same resamples.
    """
    found: dict[str, list[Floats]] = {name: [] for name in COEFFICIENTS}
    for chosen, different in _resamples(members, bootstraps, seed):
        for name, coefficient in COEFFICIENTS.items():
            values = coefficient(both[0][chosen], both[1][chosen])
            found[name].append(np.where(different < FEWEST, np.nan, values))
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
