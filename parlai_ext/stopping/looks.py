"""
Runs that stop when they are settled: the looks at a run and the file that holds them,
how they are shown, and how many openers a longer run needs.

What is decided depends on the stored scores alone: a run that was killed decides the
same when it goes on, and whoever ranks its scores finds the same decisions.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, compress, pairwise
from typing import Any

import numpy as np
import scipy

from parlai_ext.core import UserError, content_id, frozen, record_to_json
from parlai_ext.ranking.intervals import FEWEST_OPENERS, LEVEL, Floats, Ints
from parlai_ext.ranking.standings import (
    MOST_OPENERS,
    POWER,
    Components,
    candidate_counts,
    detectable_difference,
    fold_games,
    known_means,
)
from parlai_ext.ranking.stopping_rule import (
    ENOUGH_IF_SKEWED,
    ERROR,
    FEWEST_TO_SETTLE,
    MOST_SKEWNESS,
    ORDER,
    TIE,
    WHEN_RANKED,
    Look,
    PairOutcome,
    Stopping,
    critical_values,
    pair_intervals,
    settle_pairs,
    settled_ranks,
)
from parlai_ext.report.view import RankingView
from parlai_ext.results.ranking import Ranking, Reference, RunScores, chosen_dimension
from parlai_ext.store import STOPPING_FILE, RunFolder, StopRecord
from parlai_ext.view import (
    Column,
    Table,
    digits_for,
    interval,
    number_column,
    rough_count,
    shown_table,
)
from parlai_ext.view.page import Section, terminal_lines


def look_at_scores(
    scores: RunScores,
    *,
    margin: float,
    planned: int,
    dimension: str | None,
    used: int | None = None,
) -> Stopping:
    """
    Return which pairs of the ranked targets are settled by the scores of a run.

    :param planned: openers that would be played at most.
    :param used: openers at the last look; by default those of the run.
    :param dimension: the one that is watched, as for `scores_by_opener`.
    :raises UserError: for a dimension without scores.
    """
    run = scores.run
    name, means, systems, n_pairs = scores_by_opener(scores, dimension)
    # the openers of each block are those that the run had when it was looked at
    last = used or len(run.openers)
    every = (*run.manifest.grown_from, len(run.openers))
    numbers = [n for n in every if n <= last] or every[-1:]
    looks, pairs = settle_pairs(means, systems, numbers, margin, n_pairs)
    return Stopping(
        rule=WHEN_RANKED,
        dimension=name,
        margin=margin,
        confidence=LEVEL,
        planned=planned,
        n_pairings=len(run.pairings),
        looks=looks,
        pairs=pairs,
        ranks=settled_ranks(systems, pairs),
        scores=scores.scorer_signature,
        n_later=len(run.openers) - numbers[-1],
    )


def scores_by_opener(
    scores: RunScores, wanted: str | None
) -> tuple[str, Floats, list[str], int]:
    """
    Return a dimension, on it the means of the ranked targets over their partners,
    ``[system, opener]``, with their names, and the number of pairs of all targets,
    which share the error.

    :param wanted: the dimension, as for `chosen_dimension`.
    """
    tables, ranked = scores.tables, scores.ranked
    name = chosen_dimension(tables.scores, wanted, '--stop-dimension')
    means = known_means(fold_games(tables.scores[name], tables.games_per_opener))
    systems = list(compress(tables.systems, ranked))
    return name, means[ranked], systems, math.comb(len(ranked), 2)


def write_stopping(run: RunFolder, stopping: Stopping) -> None:
    """
    Write the looks so far, and what came of them into the manifest.
    """
    run.write_json(STOPPING_FILE, record_to_json(stopping))
    note = {key: getattr(stopping, key) for key in StopRecord.model_fields}
    run.record_stop(StopRecord(**{**note, 'scores': content_id(stopping.scores)}))


def with_stopping(
    ranking: Ranking, scores: RunScores, _reference: Reference
) -> Ranking:
    """
    Return a ranking with the looks that led to the run's number of openers, worked out
    anew from its scores; as it is where that was fixed, or these are not the scores
    that were looked at.
    """
    run = scores.run
    note = run.manifest.stop
    if not note or note.scores != content_id(scores.scorer_signature):
        return ranking
    if note.dimension not in scores.tables.scores or not run.openers:
        return ranking
    stopping = look_at_scores(
        scores,
        margin=note.margin,
        planned=note.planned,
        dimension=note.dimension,
        used=note.used,
    )
    return replace(ranking, stopping=stopping)


# --- how a run came to its number of openers: looks, pairs, and which intervals hold --

LISTED = 8  # pairs that the terminal shows
OUTCOMES = {TIE: 'tie', ORDER: 'first is better'}
LIMITS = (ENOUGH_IF_SKEWED, MOST_SKEWNESS)
LOOK_COLUMNS = (
    number_column('n_openers', 'Openers'),
    number_column('n_ordered', 'In order'),
    number_column('n_tied', 'Ties'),
    number_column('n_open', 'Open'),
    number_column(
        'skewness',
        'Skewness',
        show=lambda look: (
            f'{look.skewness:.1f}{"" if look.counts else ": does not count"}'
        ),
    ),
)


def print_look(stopping: Stopping) -> None:
    """
    Print what a look at a run that goes on has found.
    """
    look = stopping.looks[-1]
    print(
        *terminal_lines('look', stopping=stopping, look=look, limits=LIMITS), flush=True
    )


def changed_looks(stopping: Stopping) -> list[Look]:
    """
    Return the looks at which a pair was settled, and the first and the last one.
    """
    looks = stopping.looks
    changed = [look for before, look in pairwise(looks) if look.n_open != before.n_open]
    return list(
        {look.n_openers: look for look in (looks[0], *changed, looks[-1])}.values()
    )


def pairs_table(stopping: Stopping) -> Table:
    """
    Return the pairs: open ones, then ties, then ordered ones by their difference.
    """
    place = {None: 0, TIE: 1, ORDER: 2}
    pairs = sorted(
        stopping.pairs,
        key=lambda pair: (place[pair.outcome], abs(pair.difference or 0.0)),
    )
    digits = digits_for([end for pair in pairs for end in (pair.low, pair.high)])

    def outcome(pair: PairOutcome) -> str:
        if pair.outcome is None:
            return 'open'
        return f'{OUTCOMES[pair.outcome]}, at {pair.settled_at}'

    columns = (
        Column('pair', 'Pair', show=lambda pair: f'{pair.first}, {pair.second}'),
        number_column('difference', 'Difference', digits=digits),
        number_column(
            'interval',
            'Interval',
            show=lambda pair: interval(pair.low, pair.high, digits),
        ),
        Column('outcome', 'Settled', show=outcome),
    )
    return Table(columns, pairs)


def open_ranks(stopping: Stopping) -> list[tuple[str, str]]:
    """
    Return the systems with the ranks that the settled pairs leave them, best first.
    """
    ranks = sorted(stopping.ranks.items(), key=lambda r: (r[1].low, r[1].high, r[0]))
    return [
        (name, str(own.low) if own.low == own.high else f'{own.low}–{own.high}')
        for name, own in ranks
    ]


def stopping_lines(stopping: Stopping) -> list[str]:
    """
    Return the section for the terminal.
    """
    pairs = pairs_table(stopping)
    return terminal_lines(
        'stopping',
        stopping=stopping,
        looks=changed_looks(stopping),
        limits=LIMITS,
        pairs=Table(pairs.columns, pairs.rows[:LISTED]),
        n_more=len(pairs.rows) - LISTED,
        open_ranks=open_ranks(stopping),
    )


def stopping_section(view: RankingView) -> Section | None:
    """
    Return the section for the page; `None` where the number of openers was fixed.
    """
    stopping = view.ranking.stopping
    if stopping is None:
        return None
    n_pairs = len(stopping.pairs)
    n_settled = n_pairs - stopping.looks[-1].n_open
    remark = f'{n_settled} of {n_pairs} pairs settled when it stopped'
    data = {
        'stopping': stopping,
        'ranks': shown_table(('System', 'Rank'), open_ranks(stopping)),
        'pairs': pairs_table(stopping),
        'looks': Table(LOOK_COLUMNS, changed_looks(stopping)),
        'n_looks': len(stopping.looks),
    }
    remarks = {stopping.dimension: remark} if stopping.is_final else {}
    return Section('stopping', 'When it stopped', data, remarks)


# --- how many openers a difference needs, from the scores of a pilot ------------------
# A pilot shows how much the difference of two systems varies from opener to opener,
# with the partners that it has. With that variance,
#
# * the *fixed* number is the smallest with which the test of `ranks` (all pairs
#   together, partners fixed) claims the difference in four of five runs;
# * the *sequential* number is the smallest by which a run that stops when it is settled
#   has settled the pair in four of five runs: ``difference >= (c(n) + 0.84) s / √n``,
#   with ``c(n)`` standard errors to each side of the confidence sequence. Without 0.84
#   it is that of half of the runs.
# * a *tie* of equal systems within ± the difference is settled in four of five runs as
#   soon as ``difference >= (c(n) + 1.28) s / √n``, since both ends must lie inside.
#
# The variance is the pilot's own: `variance_range` says how far off it may be.

# standard errors beyond the confidence sequence with which an order is settled in four
# of five runs, or in half of them, and a tie in four of five
SETTLED, SETTLED_IN_HALF, TIED = map(
    float, np.ravel(scipy.special.ndtri([POWER, 0.5, (1 + POWER) / 2]))
)
SHARES = {'sequential': SETTLED, 'sequential_half': SETTLED_IN_HALF, 'tie': TIED}
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
    return f'>{MOST_OPENERS:,}' if n is None else rough_count(n).removeprefix('about ')
