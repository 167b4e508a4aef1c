"""
How a run came to its number of openers: the looks, the pairs, and which intervals hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from parlai_ext.core.display import (
    DASH,
    digits_for,
    interval,
    number,
    one_line,
    pad_cell,
    wrap_lines,
)
from parlai_ext.ranking.stopping import (
    ENOUGH_IF_SKEWED,
    MOST_SKEWNESS,
    ORDER,
    TIE,
    Look,
    PairOutcome,
    Stopping,
)

NAME_WIDTH = 14
LISTED = 8  # pairs that the terminal shows
VALID = (
    'Ranks and intervals that hold although one looked in between are those of this '
    'section: 95 % for all of them together, with these partners, on this dimension. '
    'The intervals and rank ranges of the leaderboard hold for a number of dialogues '
    'that was fixed beforehand; after such a stop take them for a description.'
)


def look_line(stopping: Stopping) -> str:
    """
    Return the last look as one line, printed while a run goes on.
    """
    look = stopping.looks[-1]
    return (
        f'look at {look.n_openers} of {stopping.planned} openers: '
        f'{_counts_text(look)}; {stopping.reason}'
    )


def _counts_text(look: Look) -> str:
    ties = 'tie' if look.n_tied == 1 else 'ties'
    text = f'{look.n_ordered} in order, {look.n_tied} {ties}, {look.n_open} open'
    return text if look.counts else f'{text} ({skewness_note(look)})'


def skewness_note(look: Look) -> str:
    """
    Return why nothing could be settled at a look whose differences are too skewed.
    """
    return (
        f'does not count: skewness {number(look.skewness, 1)}, and only after '
        f'{ENOUGH_IF_SKEWED} openers may it be above {MOST_SKEWNESS:g}'
    )


def summary(stopping: Stopping) -> str:
    """
    Return in a sentence when and why the run stopped.
    """
    used, planned = stopping.used, stopping.planned
    dialogues, most = (n * stopping.n_pairings for n in (used, planned))
    look = stopping.looks[-1]
    verb = 'Stopped' if stopping.is_final else 'So far'
    return (
        f'{verb} after {used} of {planned} openers ({dialogues:,} of {most:,} '
        f'dialogues), because {stopping.reason}: {look.n_ordered} of '
        f'{len(stopping.pairs)} pairs are in order, {look.n_tied} tied within '
        f'±{stopping.margin:g} and {look.n_open} open ({one_line(stopping.dimension)}).'
    )


def changed_looks(stopping: Stopping) -> list[Look]:
    """
    Return the looks at which a pair was settled, and the first and the last one.
    """
    looks = stopping.looks
    changed = [
        look
        for before, look in zip(looks, looks[1:], strict=False)
        if look.n_open != before.n_open
    ]
    return list(
        {look.n_openers: look for look in (looks[0], *changed, looks[-1])}.values()
    )


def pairs_closest_first(stopping: Stopping) -> list[PairOutcome]:
    """
    Return the pairs: open ones, then ties, then ordered ones by their difference.
    """
    place = {None: 0, TIE: 1, ORDER: 2}
    return sorted(
        stopping.pairs,
        key=lambda pair: (place[pair.outcome], abs(pair.difference or 0.0)),
    )


def outcome_text(pair: PairOutcome) -> str:
    """
    Return what is settled about a pair, in words.
    """
    if pair.outcome is None:
        return 'open'
    words = 'tie' if pair.outcome == TIE else 'first is better'
    return f'{words}, at {pair.settled_at}'


def rank_text(stopping: Stopping, system: str) -> str:
    """
    Return the ranks that the settled pairs leave a system.
    """
    ranks = stopping.ranks[system]
    return str(ranks.low) if ranks.low == ranks.high else f'{ranks.low}–{ranks.high}'


def ranked_systems(stopping: Stopping) -> list[str]:
    """
    Return the systems by the ranks that are left to them.
    """
    ranks = stopping.ranks
    return sorted(ranks, key=lambda name: (ranks[name].low, ranks[name].high, name))


def digits_of(pairs: Sequence[PairOutcome]) -> int:
    return digits_for([end for pair in pairs for end in (pair.low, pair.high)])


def terminal_lines(stopping: Stopping) -> Iterator[str]:
    """
    Yield the section for the terminal.
    """
    yield from wrap_lines(summary(stopping))
    looks = changed_looks(stopping)
    texts = [f'{look.n_openers}: {_counts_text(look)}' for look in looks]
    yield from wrap_lines(f'looks after openers: {"; ".join(texts)}', '  ')
    pairs = pairs_closest_first(stopping)
    shown, digits = pairs[:LISTED], digits_of(pairs)
    for pair in shown:
        names = f'{_name_cell(pair.first)} – {_name_cell(pair.second)}'
        cells = f'{number(pair.difference, digits):>8}  {_interval(pair, digits):<18}'
        yield f'  {names} {cells} {outcome_text(pair)}'.rstrip()
    if len(pairs) > LISTED:
        rest = len(pairs) - LISTED
        yield f'  {rest} more pairs, further apart, are in stopping.json'
    ranks = ', '.join(
        f'{name} {rank_text(stopping, name)}' for name in ranked_systems(stopping)
    )
    yield from wrap_lines(f'ranks: {ranks}', '  ')
    yield from wrap_lines(VALID, '  ')


def _name_cell(name: str) -> str:
    return pad_cell(one_line(name), NAME_WIDTH)


def _interval(pair: PairOutcome, digits: int) -> str:
    text = interval(pair.low, pair.high, digits)
    return f'({text})' if text != DASH else text


def print_look(stopping: Stopping) -> None:
    """
    Print what a look at a run that goes on has found.
    """
    print(look_line(stopping), flush=True)
