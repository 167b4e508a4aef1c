"""
How a run came to its number of openers: the looks, the pairs, and which intervals hold.
"""

from itertools import pairwise

from parlai_ext.ranking.stopping_rule import (
    ENOUGH_IF_SKEWED,
    MOST_SKEWNESS,
    ORDER,
    TIE,
    Look,
    PairOutcome,
    Stopping,
)
from parlai_ext.report.view import RankingView
from parlai_ext.view import (
    Column,
    Table,
    digits_for,
    interval,
    number_column,
    shown_table,
)
from parlai_ext.view.page import Section, terminal_lines

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
