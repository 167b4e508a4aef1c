"""
How many openers a difference needs, from the scores of a pilot.

A pilot shows how much the difference of two systems varies from opener to opener, with
the partners that it has (`stopping`). With that variance,

* the *fixed* number is the smallest with which the test of `ranks` (all pairs together,
  partners fixed) claims the difference in four of five runs;
* the *sequential* number is the smallest by which a run that stops when it is settled
  has settled the pair in four of five runs: ``difference >= (c(n) + 0.84) s / √n``,
  with ``c(n)`` standard errors to each side of the confidence sequence. Without 0.84 it
  is that of half of the runs.
* a *tie* of equal systems within ± the difference is settled in four of five runs as
  soon as ``difference >= (c(n) + 1.28) s / √n``, since both ends must lie inside.

The variance is the pilot's own: `variance_range` says how far off it may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from parlai_ext.ranking.intervals import FEWEST_OPENERS
from parlai_ext.ranking.separation import (
    MOST_OPENERS,
    POWER,
    Components,
    candidate_counts,
    detectable_difference,
)
from parlai_ext.ranking.stopping import (
    ENOUGH_IF_SKEWED,
    ERROR,
    FEWEST_TO_SETTLE,
    MOST_SKEWNESS,
    critical_values,
    pair_intervals,
)
from parlai_ext.ranking.table import Floats


@dataclass(frozen=True)
class PairPlan:
    """
    How many openers tell two systems apart; `None` where 20,000 are not enough.

    `observed` is the pilot's difference, first less second, `spread` its standard
    deviation on one opener, and `difference` the one that is looked for. `sequential`
    settles it in four of five runs, `sequential_half` in half of them, and `tie` a tie
    of equal systems within ± the difference.
    """

    first: str
    second: str
    observed: float
    spread: float
    difference: float
    fixed: int | None
    sequential: int | None
    sequential_half: int | None
    tie: int | None


def plan_pairs(
    scores: Floats,
    systems: Sequence[str],
    difference: float | None = None,
    n_pairs: int | None = None,
) -> tuple[PairPlan, ...]:
    """
    Return how many openers each pair needs, the pair with the closest scores first.

    :param scores: ``[system, opener]`` of the pilot, NaN where there is none.
    :param difference: the one to find; by default that observed of each pair.
    :param n_pairs: how many pairs are compared together, where they are more.
    """
    all_pairs = list(combinations(range(len(systems)), 2))
    together = n_pairs or len(all_pairs)
    fewest = fewest_to_settle(scores)
    plans = []
    for i, j in all_pairs:
        differences = scores[i] - scores[j]
        known = differences[~np.isnan(differences)]
        if len(known) < FEWEST_OPENERS:
            continue
        mean, spread = float(known.mean()), float(known.std(ddof=1))
        first, second = (i, j) if mean >= 0 else (j, i)
        wanted = abs(mean) if difference is None else difference
        plans.append(
            PairPlan(
                systems[first],
                systems[second],
                abs(mean),
                spread,
                wanted,
                fixed=openers_of_fixed_run(wanted, spread, together),
                sequential=openers_until_settled(
                    wanted, spread, together, fewest=fewest
                ),
                sequential_half=openers_until_settled(
                    wanted, spread, together, 0.5, fewest
                ),
                tie=openers_until_tied(wanted, spread, together, fewest=fewest),
            )
        )
    return tuple(sorted(plans, key=lambda plan: plan.observed))


def fewest_to_settle(scores: Floats) -> int:
    """
    Return before how many openers a run with scores like these settles nothing.
    """
    last = scores.shape[1]
    skewness = pair_intervals(scores, [last], ERROR).skewness if last else [0.0]
    return FEWEST_TO_SETTLE if skewness[0] <= MOST_SKEWNESS else ENOUGH_IF_SKEWED


def openers_of_fixed_run(difference: float, spread: float, n_pairs: int) -> int | None:
    """
    Return the smallest fixed number of openers that finds a difference in four of five
    runs.

    :param spread: standard deviation of the difference on one opener.
    """
    counts = candidate_counts(FEWEST_OPENERS, MOST_OPENERS)
    reach = detectable_difference(
        Components(0.0, spread**2, 0.0), 1, counts, n_pairs, 'fixed'
    )
    return _first_count(counts, difference >= reach)


def openers_until_settled(
    difference: float,
    spread: float,
    n_pairs: int,
    share: float = POWER,
    fewest: int = FEWEST_TO_SETTLE,
) -> int | None:
    """
    Return the number of openers by which a share of the runs has settled an order.
    """
    errors = stats.norm.ppf(share)
    return _openers_to_reach(difference, spread, n_pairs, errors, fewest)


def openers_until_tied(
    margin: float,
    spread: float,
    n_pairs: int,
    share: float = POWER,
    fewest: int = FEWEST_TO_SETTLE,
) -> int | None:
    """
    Return the number of openers by which a share of the runs has settled a tie of two
    systems with equal true scores.
    """
    errors = stats.norm.ppf((1 + share) / 2)
    return _openers_to_reach(margin, spread, n_pairs, errors, fewest)


def _openers_to_reach(
    target: float, spread: float, n_pairs: int, errors: float, fewest: int
) -> int | None:
    """
    Return the first count at which the confidence sequence and some standard errors
    more are within ``target``.
    """
    counts = candidate_counts(fewest, MOST_OPENERS)
    reach = (critical_values(counts, ERROR / n_pairs) + errors) / np.sqrt(counts)
    return _first_count(counts, target >= reach * spread)


def _first_count(
    counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]],
    is_enough: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
) -> int | None:
    return int(counts[is_enough.argmax()]) if is_enough.any() else None


def variance_range(n_openers: int, confidence: float = 0.8) -> tuple[float, float]:
    """
    Return between which multiples of a pilot's variance the true one lies, for normal
    differences; the numbers of openers change by about as much.
    """
    tail, freedom = (1 - confidence) / 2, n_openers - 1
    low = freedom / stats.chi2.isf(tail, freedom)
    high = freedom / stats.chi2.isf(1 - tail, freedom)
    return float(low), float(high)
