"""
How many dialogues a difference needs, as a table for the terminal.
"""

from __future__ import annotations

from collections.abc import Iterator

from parlai_ext.core.display import (
    digits_for,
    number,
    one_line,
    pad_cell,
    rough_count,
    wrap_lines,
)
from parlai_ext.ranking.planning import PairPlan, variance_range
from parlai_ext.ranking.separation import MOST_OPENERS
from parlai_ext.results.planning import RunPlan

NAME_WIDTH = 15
TOO_MANY = f'>{MOST_OPENERS:,}'


def plan_lines(plan: RunPlan) -> Iterator[str]:
    """
    Yield the table of pairs and what it means for a whole run.
    """
    wanted = 'the observed differences'
    if plan.difference is not None:
        wanted = f'a difference of {plan.difference:g}'
    yield from wrap_lines(
        f'Openers for {wanted} on {one_line(plan.dimension)}, from the spread over '
        f'{plan.n_openers} openers (all pairs together at 5 %, found in 4 of 5 runs; '
        'with these partners):'
    )
    yield (
        f'  {"pair":<{2 * NAME_WIDTH + 3}} {"now":>8} {"spread":>8} {"fixed":>8} '
        f'{"stop":>8} {"tie":>8}'
    )
    digits = digits_for([0.0, *(pair.spread for pair in plan.pairs)])
    for pair in plan.pairs:
        yield _pair_line(pair, digits)
    yield from _whole_run_lines(plan)
    low, high = variance_range(plan.n_openers)
    yield from wrap_lines(
        f'  These numbers follow the spread in {plan.n_openers} openers; as that may '
        f'be off, {low:.2g} to {high:.2g} times as many may be needed (80 %).',
        '  ',
    )


def _pair_line(pair: PairPlan, digits: int) -> str:
    names = (
        f'{pad_cell(one_line(pair.first), NAME_WIDTH)} – '
        f'{pad_cell(one_line(pair.second), NAME_WIDTH)}'
    )
    counts = (pair.fixed, pair.sequential, pair.tie)
    cells = ' '.join(f'{_count(n):>8}' for n in counts)
    spread = number(pair.spread, digits)
    return f'  {names} {number(pair.observed, digits):>8} {spread:>8} {cells}'


def _count(n: int | None) -> str:
    return TOO_MANY if n is None else rough_count(n).removeprefix('about ')


def _whole_run_lines(plan: RunPlan) -> Iterator[str]:
    """
    Yield what a run needs so that each pair has its openers.
    """
    rows = {
        'a fixed run': [pair.fixed for pair in plan.pairs],
        'a run with --stop, by then in 4 of 5 runs for each pair': [
            pair.sequential for pair in plan.pairs
        ],
        '… in half of the runs': [pair.sequential_half for pair in plan.pairs],
    }
    for name, counts in rows.items():
        known = [n for n in counts if n is not None]
        if len(known) < len(counts):
            text = f'{len(counts) - len(known)} pairs need more than {MOST_OPENERS:,}'
        else:
            most = max(known)
            n_dialogues = rough_count(most * plan.n_pairings)
            text = f'{rough_count(most)} openers, {n_dialogues} dialogues'
        yield from wrap_lines(f'  {name}: {text}', '  ')
    yield from wrap_lines(
        '  tie: with --stop --margin of the same size, by when equal systems are '
        'declared tied',
        '  ',
    )
