"""
How well mean scores agree with a reference: Spearman and Kendall, with intervals.

Mean scores are correlated, never the ranks of a leaderboard (which tie). The interval
is a 95 % percentile interval; each resample draws openers, raters (when the reference
is human judgements) and systems anew. Partners stay as they are. With few systems such
intervals are rough, and they cannot reach beyond an order that no resample upsets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.ranking.intervals import draw_means
from parlai_ext.ranking.raters import Panel
from parlai_ext.ranking.table import Floats, checked, plain, settled, system_means

FEWEST = 3
NOTHING = {'value': None, 'low': None, 'high': None}

Reference = Mapping[str, float] | Sequence[HumanJudgement]


def with_reference(
    values: Floats,
    systems: Sequence[str],
    reference: Reference,
    *,
    kind: str,
    bootstraps: int,
    seed: int,
) -> dict[str, Any]:
    """
    Return Spearman's rho and Kendall's tau-b of mean scores with a reference.

    :param reference: system -> value (nothing to resample), or human judgements.
        A system without a score or without a reference value does not count.
    :return: ``{'spearman': {'value', 'low', 'high'}, 'kendall': {…}, 'n', 'kind'}``
        and, where a number is `None`, a ``'reason'``.
    """
    table = checked(values, systems)
    chosen = _common(system_means(table), systems, reference)
    names = [systems[i] for i in chosen]
    means = settled(system_means(table[chosen]))
    target, panel = _reference(reference, names)
    result = {'spearman': NOTHING, 'kendall': NOTHING, 'n': len(names), 'kind': kind}
    if reason := _undefined(means, target):
        return {**result, 'reason': reason}
    rng = np.random.default_rng([seed, 2])
    draws = draw_means(table[chosen], bootstraps, seed)
    left = settled(draws.means + draws.fixed)
    right = np.broadcast_to(target, left.shape)
    if panel is not None:
        right = settled(panel.draw(bootstraps, rng))
    left, right = _redraw_systems(left, right, rng)
    for name, coefficient in COEFFICIENTS.items():
        value = float(coefficient(means[None], target[None])[0])
        low, high, reason = _interval(coefficient(left, right), bootstraps)
        result[name] = {'value': plain(value), 'low': low, 'high': high}
        if reason:
            result['reason'] = reason
    return result


def spearman(left: Floats, right: Floats) -> Floats:
    """
    Return Spearman's rho of each row; NaN where a side is constant.
    """
    ranks = [stats.rankdata(side, axis=1) for side in (left, right)]
    a, b = (side - side.mean(axis=1, keepdims=True) for side in ranks)
    with np.errstate(invalid='ignore', divide='ignore'):
        rho = (a * b).sum(axis=1) / np.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))
    return np.clip(rho, -1.0, 1.0)


def kendall(left: Floats, right: Floats) -> Floats:
    """
    Return Kendall's tau-b of each row; NaN where a side is constant.
    """
    agree, first, second = (np.zeros(len(left)) for _ in range(3))
    for i in range(1, left.shape[1]):
        a = np.sign(left[:, [i]] - left[:, :i])
        b = np.sign(right[:, [i]] - right[:, :i])
        agree += (a * b).sum(axis=1)
        first += (a * a).sum(axis=1)
        second += (b * b).sum(axis=1)
    with np.errstate(invalid='ignore', divide='ignore'):
        return np.clip(agree / np.sqrt(first * second), -1.0, 1.0)


COEFFICIENTS = {'spearman': spearman, 'kendall': kendall}


def _common(means: Floats, systems: Sequence[str], reference: Reference) -> list[int]:
    """
    Return the systems that have both sides, by name.
    """
    if isinstance(reference, Mapping):
        known = {name for name, value in reference.items() if value is not None}
    else:
        known = {one.system for one in reference}
    there = [
        i for i, name in enumerate(systems) if name in known and not np.isnan(means[i])
    ]
    return sorted(there, key=lambda i: systems[i])


def _reference(
    reference: Reference, names: Sequence[str]
) -> tuple[Floats, Panel | None]:
    if isinstance(reference, Mapping):
        return np.array([float(reference[name]) for name in names]), None
    panel = Panel.of(reference, names)
    return settled(panel.means()), panel


def _undefined(means: Floats, target: Floats) -> str | None:
    """
    Say why there is no correlation, or `None` when there is one.
    """
    if len(means) < FEWEST:
        return f'{len(means)} systems have a score and a reference; {FEWEST} are needed'
    if np.ptp(means) == 0:
        return 'all systems have the same score'
    if np.ptp(target) == 0:
        return 'all systems have the same reference value'
    return None


def _redraw_systems(
    left: Floats, right: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """
    Draw systems with replacement in every row; keep the rows with three or more.
    """
    size = left.shape[1]
    chosen = rng.integers(size, size=left.shape)
    ordered = np.sort(chosen, axis=1)
    different = 1 + (np.diff(ordered, axis=1) > 0).sum(axis=1)
    left = np.take_along_axis(left, chosen, axis=1)
    right = np.take_along_axis(right, chosen, axis=1)
    whole = ~np.isnan(left).any(axis=1) & ~np.isnan(right).any(axis=1)
    keep = whole & (different >= FEWEST)
    return left[keep], right[keep]


def _interval(
    draws: Floats, bootstraps: int
) -> tuple[float | None, float | None, str | None]:
    """
    Return the percentile interval of the defined draws, or why there is none.
    """
    draws = draws[~np.isnan(draws)]
    if 2 * len(draws) < bootstraps or not len(draws):
        return None, None, 'no interval: most resamples hold too few different systems'
    if np.ptp(draws) < 1e-12:
        return None, None, 'no interval: no resample changes the order'
    low, high = np.quantile(draws, [0.025, 0.975])
    return plain(float(low)), plain(float(high)), None
