"""
What share of the variance of scores comes from systems, partners, openers, and what is
left: crossed random effects, estimated by the analysis of variance.

**Model.** The score of system ``t`` with partner ``p`` over opener ``j`` is the sum of
a mean, an effect of each of the three, an effect of each pair of them (a system that
does well with one partner: system × partner), and the rest, all independent with mean
0. This is the two- and three-facet design of generalizability theory (Brennan 2001,
"Generalizability Theory", chapter 4).

**Estimate.** Henderson's method I (Henderson 1953, "Estimation of variance and
covariance components", Biometrics 9): for each set of factors the sum over its cells of
``n * mean²``, and its expectation under the model, which is linear in the components;
the equations are solved. Where every cell has a score these are the classical ANOVA
estimates (mean squares equated to their expectations); where cells are missing, as on
the diagonal of all-play-all, they are unbiased all the same. An estimate below 0 counts
as 0 in a share.

**Limits.** Five systems are five draws from the systems that there might be: the share
of systems is rough, and it is of *these* systems. A factor with one level has no
component.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, combinations

import numpy as np

from parlai_ext.core import frozen
from parlai_ext.ranking.intervals import Floats

FACTORS = ('system', 'partner', 'opener')
REST = 'rest'
TIMES = ' × '


@frozen
class VarianceShares:
    """
    Variance components by name (``system``, ``system × partner``, …, ``rest``) and
    their shares, which sum to 1.
    """

    components: Mapping[str, float]
    shares: Mapping[str, float]


def variance_shares(values: Floats) -> VarianceShares | None:
    """
    Return the variance components of ``[system, partner, opener]`` scores and their
    shares; `None` where they cannot be told apart (fewer than two levels, no variance,
    too few scores).
    """
    scored = ~np.isnan(values)
    axes = [
        k
        for k in range(values.ndim)
        if scored.any(axis=_others([k], scored.ndim)).sum() > 1
    ]
    if not axes:
        return None
    dropped = tuple(k for k in range(values.ndim) if k not in axes)
    for axis in sorted(dropped, reverse=True):
        level = int(scored.any(axis=_others([axis], values.ndim)).argmax())
        values = np.asarray(values.take(level, axis))
    components = _components(values, [FACTORS[k] for k in axes])
    if components is None:
        return None
    counted = {name: max(0.0, value) for name, value in components.items()}
    total = sum(counted.values())
    if total <= 0:
        return None
    shares = {name: value / total for name, value in counted.items()}
    return VarianceShares(components, shares)


def _others(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    return tuple(k for k in range(ndim) if k not in axes)


def _components(values: Floats, names: list[str]) -> dict[str, float] | None:
    """
    Return the variance components of a table whose axes are these factors; the effect
    of all factors together is the rest.
    """
    present = ~np.isnan(values)
    counts = present.astype(np.float64)
    number = counts.sum()
    # centred, so that squares keep their digits
    cells = np.where(present, values - values[present].mean(), 0.0)
    axes = range(values.ndim)
    effects = list(
        chain.from_iterable(combinations(axes, k) for k in range(1, values.ndim + 1))
    )
    squares = []  # for each effect, the sum over its cells of n * mean²
    for effect in effects:
        away = _others(effect, values.ndim)
        sums, numbers = cells.sum(axis=away), counts.sum(axis=away)
        squares.append(float(np.sum(sums**2 / np.where(numbers > 0, numbers, 1))))
    grand = float(cells.sum()) ** 2 / number
    matrix = np.array(
        [
            [_coefficient(counts, rows, effect) for effect in effects]
            for rows in [(), *effects]
        ]
    )
    # the mean's own square is in every sum, N times: it goes with the first row
    equations = matrix[1:] - matrix[0]
    right = np.array(squares) - grand
    if np.linalg.matrix_rank(equations) < len(effects):
        return None
    estimates = np.linalg.solve(equations, right)
    return {
        REST if len(effect) == values.ndim else TIMES.join(names[k] for k in effect): (
            float(estimate)
        )
        for effect, estimate in zip(effects, estimates, strict=True)
    }


def _coefficient(
    counts: Floats, rows: tuple[int, ...], effect: tuple[int, ...]
) -> float:
    """
    Return how often the variance of ``effect`` is in the expected sum of squares of the
    cells of ``rows``.
    """
    away = _others((*rows, *effect), counts.ndim)
    joint = counts.sum(axis=away, keepdims=True)
    levels = tuple(k for k in effect if k not in rows)
    squares = (joint**2).sum(axis=levels, keepdims=True)
    numbers = counts.sum(axis=_others(rows, counts.ndim), keepdims=True)
    return float(np.sum(squares / np.where(numbers > 0, numbers, 1)))
