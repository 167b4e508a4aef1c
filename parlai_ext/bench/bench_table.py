"""
A bench as a table for a terminal: one line a scorer, one column a set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import fsum

from parlai_ext.bench.bench_files import Bench, ScorerAbout, SetAbout
from parlai_ext.core.display import DASH, WIDTH, number, pad_cell, wrap_lines

LABEL_WIDTH = 28
CELL_WIDTH = 30
FITTED = '†'  # marks a scorer in which something was fitted on human scores
LEVELS = {
    'turn': 'turn by turn',
    'dialogue': 'dialogue by dialogue',
    'system': 'system by system',
}


def bench_lines(bench: Bench) -> Iterator[str]:
    """
    Yield the tables: Spearman of each scorer with people, at each level.
    """
    scorers = sorted(bench.scorers, key=lambda scorer: scorer.is_trivial)
    for level, title in LEVELS.items():
        sets = sets_of_level(bench, level)
        if sets:
            yield f'Spearman with people, {title}; in brackets: 95 % interval'
        per_block = (WIDTH - LABEL_WIDTH) // CELL_WIDTH
        for start in range(0, len(sets), per_block):
            yield from _block(bench, scorers, sets[start : start + per_block], level)
            yield ''
    yield from _notes(bench)


def sets_of_level(bench: Bench, level: str) -> list[SetAbout]:
    """
    Return the sets that have rows at a level.
    """
    names = {row.set_name for row in bench.rows if row.level == level}
    return [one for one in bench.sets if one.name in names]


def _block(
    bench: Bench, scorers: Sequence[ScorerAbout], sets: Sequence[SetAbout], level: str
) -> Iterator[str]:
    """
    Yield the lines of as many sets as stand side by side.
    """
    heads = [pad_cell(one.name, CELL_WIDTH - 1) for one in sets]
    yield f'{"":{LABEL_WIDTH}} {" ".join(heads)}'.rstrip()
    sizes = [pad_cell(size_text(one, level), CELL_WIDTH - 1) for one in sets]
    yield f'{"":{LABEL_WIDTH}} {" ".join(sizes)}'.rstrip()
    for scorer in scorers:
        cells = [
            pad_cell(_marked(bench, scorer, one, level), CELL_WIDTH - 1) for one in sets
        ]
        yield f'{pad_cell(scorer.label, LABEL_WIDTH)} {" ".join(cells)}'.rstrip()


def _marked(bench: Bench, scorer: ScorerAbout, one: SetAbout, level: str) -> str:
    """
    Return a cell, with a mark where the scorer was fitted on the set.
    """
    text = cell_text(bench, scorer.label, one, level)
    fitted = one.name in scorer.fitted_on and text != DASH
    return f'{text} {FITTED}' if fitted else text


def size_text(one: SetAbout, level: str) -> str:
    """
    Return how many points a set has at a level, and of how many they were drawn.
    """
    if level == 'system':
        return f'{one.n_systems} systems'
    if one.n_drawn < one.n_items:
        return f'{one.n_drawn} of {one.n_items} {one.level}s'
    return f'{one.n_items} {one.level}s'


def cell_text(bench: Bench, scorer: str, one: SetAbout, level: str) -> str:
    """
    Return Spearman, its interval, and n where that is not the set's; where a set has no
    overall quality, the mean over its qualities.
    """
    n = n_text(bench, scorer, one, level)
    if one.overall is None:
        value = mean_over_qualities(bench, scorer, one.name, level)
        return DASH if value is None else f'{number(value)} (mean{n and f", {n}"})'
    row = bench.row(scorer, one.name, level)
    if row is None or row.value() is None:
        return DASH
    spearman = row.correlations['spearman']
    text = f'{number(spearman.value)} (no interval)'
    if spearman.low is not None:
        low, high = number(spearman.low), number(spearman.high)
        text = f'{number(spearman.value)} [{low}, {high}]'
    return f'{text} {n}'.rstrip()


def n_text(bench: Bench, scorer: str, one: SetAbout, level: str) -> str:
    """
    Return how many items, or systems, stand behind a scorer's cell, if not those that
    stand under the name of the set; else ''.
    """
    rows = bench.main_rows(scorer, one.name, level)
    if not rows:
        return ''
    row = next((row for row in rows if row.is_overall), rows[0])
    if level == 'system' and row.n != one.n_systems:
        return f'n {row.n}'
    if row.n_items == one.n_drawn:
        return ''
    return f'{row.n_items} items' if level == 'system' else f'n {row.n_items}'


def mean_over_qualities(
    bench: Bench, scorer: str, set_name: str, level: str
) -> float | None:
    """
    Return the mean over a set's qualities of the main score's Spearman; `None` if one
    of them is missing.
    """
    rows = bench.main_rows(scorer, set_name, level)
    values = [row.value() for row in rows]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return fsum(known) / len(known)


def _notes(bench: Bench) -> Iterator[str]:
    """
    Yield what is missing, and why.
    """
    for one in bench.scorers:
        if one.fitted_on:
            where = ', '.join(one.fitted_on)
            yield from wrap_lines(
                f'{FITTED} {one.label} was fitted on human scores of {where}'
            )
    for name, reason in bench.missing.items():
        yield from wrap_lines(f'no {name}: {reason}')
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in bench.rows:
        if row.value() is None and row.level != 'system' and row.reason:
            reasons.setdefault((row.scorer, row.reason), []).append(row.set_name)
    for (scorer, reason), names in reasons.items():
        where = ', '.join(dict.fromkeys(names))
        yield from wrap_lines(f'{scorer}: not on {where}: {reason}')
    for scorer, by_set in bench.reasons.items():
        dropped = {
            reason: sum(counts.get(reason, 0) for counts in by_set.values())
            for counts in by_set.values()
            for reason in counts
        }
        for reason, count in dropped.items():
            yield from wrap_lines(f'{scorer}: {count} items without a score: {reason}')
    drawn = [one.name for one in bench.sets if one.n_drawn < one.n_items]
    if drawn:
        yield from wrap_lines(
            f'whole contexts were drawn with seed {bench.seed} from {", ".join(drawn)}'
        )
