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

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import scipy

from parlai_ext.core import UserError, frozen
from parlai_ext.ranking.intervals import FEWEST_OPENERS, Floats, Ints
from parlai_ext.ranking.standings import (
    MOST_OPENERS,
    POWER,
    Components,
    candidate_counts,
    detectable_difference,
)
from parlai_ext.ranking.stopping_rule import (
    ENOUGH_IF_SKEWED,
    ERROR,
    FEWEST_TO_SETTLE,
    MOST_SKEWNESS,
    critical_values,
    pair_intervals,
)
from parlai_ext.results.rank import RunScores
from parlai_ext.stopping.looks import scores_by_opener
from parlai_ext.view import Column, Table, digits_for, number_column, rough_count
from parlai_ext.view.page import terminal_lines

# standard errors beyond the confidence sequence with which an order is settled in four
# of five runs, or in half of them, and a tie in four of five
SETTLED, SETTLED_IN_HALF, TIED = map(
    float, np.ravel(scipy.special.ndtri([POWER, 0.5, (1 + POWER) / 2]))
)
SHARES = {'sequential': SETTLED, 'sequential_half': SETTLED_IN_HALF, 'tie': TIED}
TOO_MANY = f'>{MOST_OPENERS:,}'
# what needs so many openers for all pairs, by the field of a `PairPlan`
RUNS = {
    'fixed': 'a fixed run',
    'sequential': 'a run with --stop, by then in 4 of 5 runs for each pair',
    'sequential_half': '… in half of the runs',
}


@frozen
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
    last = scores.shape[1]
    skewness = pair_intervals(scores, [last], ERROR).skewness if last else [0.0]
    fewest = FEWEST_TO_SETTLE if skewness[0] <= MOST_SKEWNESS else ENOUGH_IF_SKEWED
    plans = []
    for i, j in all_pairs:
        differences = scores[i] - scores[j]
        known = differences[~np.isnan(differences)]
        if len(known) < FEWEST_OPENERS:
            continue
        mean, spread = float(known.mean()), float(known.std(ddof=1))
        first, second = (i, j) if mean >= 0 else (j, i)
        wanted = abs(mean) if difference is None else difference
        about = (wanted, spread, together)
        plans.append(
            PairPlan(
                first=systems[first],
                second=systems[second],
                observed=abs(mean),
                spread=spread,
                difference=wanted,
                fixed=openers_of_fixed_run(*about),
                **{
                    name: openers_until_settled(*about, errors, fewest)
                    for name, errors in SHARES.items()
                },
            )
        )
    return tuple(sorted(plans, key=lambda plan: plan.observed))


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
    target: float,
    spread: float,
    n_pairs: int,
    errors: float = SETTLED,
    fewest: int = FEWEST_TO_SETTLE,
) -> int | None:
    """
    Return the number of openers by which a share of the runs has settled an order, or a
    tie of two systems with equal true scores: the first at which the confidence
    sequence and some standard errors more are within ``target``.

    :param errors: `SETTLED`, `SETTLED_IN_HALF` or `TIED`.
    """
    counts = candidate_counts(fewest, MOST_OPENERS)
    reach = (critical_values(counts, ERROR / n_pairs) + errors) / np.sqrt(counts)
    return _first_count(counts, target >= reach * spread)


def _first_count(counts: Ints, is_enough: Any) -> int | None:
    return int(counts[is_enough.argmax()]) if is_enough.any() else None


def variance_range(n_openers: int) -> tuple[float, float]:
    """
    Return between which multiples of a pilot's variance the true one lies (80 %), for
    normal differences; the numbers of openers change by about as much.
    """
    freedom = n_openers - 1
    low, high = (freedom / scipy.special.chdtri(freedom, tail) for tail in (0.1, 0.9))
    return float(low), float(high)


def plan_table(pairs: Sequence[PairPlan]) -> Table:
    """
    Return a row for each pair: how it differs now, and how many openers it needs.
    """
    digits = digits_for([0.0, *(pair.spread for pair in pairs)])
    columns = (
        Column('first', 'pair'),
        Column('second', ''),
        number_column('observed', 'now', digits=digits),
        number_column('spread', 'spread', digits=digits),
        number_column('fixed', 'fixed', show=lambda pair: _count(pair.fixed)),
        number_column('sequential', 'stop', show=lambda pair: _count(pair.sequential)),
        number_column('tie', 'tie', show=lambda pair: _count(pair.tie)),
    )
    return Table(columns, pairs)


def plan_lines(scores: RunScores, difference: float | None) -> list[str]:
    """
    Return the table of how many openers each pair of the ranked targets of a run needs,
    and what it means for a whole run.

    :param difference: the one to find; `None`: each pair's own.
    :raises UserError: for a tournament, or a run with too few openers or targets.
    """
    if scores.options.is_tournament:
        raise UserError('--plan: a tournament has no mean scores to compare')
    dimension, values, systems, n_pairs = scores_by_opener(scores, None)
    pairs = plan_pairs(values, systems, difference, n_pairs)
    if not pairs:
        raise UserError(
            f'--plan needs two targets with scores over {FEWEST_OPENERS} openers; this '
            'run has fewer'
        )
    n_openers = len(scores.run.openers)
    return terminal_lines(
        'plan',
        difference=difference,
        dimension=dimension,
        n_openers=n_openers,
        n_pairings=len(scores.run.pairings),
        table=plan_table(pairs),
        runs={
            words: [getattr(pair, field) for pair in pairs]
            for field, words in RUNS.items()
        },
        most=MOST_OPENERS,
        spread_range=variance_range(n_openers),
    )


def _count(n: int | None) -> str:
    return TOO_MANY if n is None else rough_count(n).removeprefix('about ')
