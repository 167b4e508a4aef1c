"""
A bench as a table for a terminal: one line a scorer, one column a set.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import fsum

from parlai_ext.bench.bench_files import Bench, ScorerAbout, SetAbout
from parlai_ext.core.display import DASH, number, wrap_lines
from parlai_ext.view.table import Cell, Column, Table, interval_cell, number_column

MEAN = 'mean over qualities'
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
    for level, title in LEVELS.items():
        if sets_of_level(bench, level):
            yield f'Spearman with people, {title}; in brackets: 95 % interval'
            yield from level_table(bench, level).lines()
            yield ''
    yield from _notes(bench)


def sets_of_level(bench: Bench, level: str) -> list[SetAbout]:
    """
    Return the sets that have rows at a level.
    """
    names = {row.set_name for row in bench.rows if row.level == level}
    return [one for one in bench.sets if one.name in names]


def level_table(bench: Bench, level: str) -> Table:
    """
    Return the matrix of a level: scorers as rows, trivial ones last, sets as columns.
    """

    def column(one: SetAbout) -> Column:
        return number_column(
            one.name,
            one.name,
            show=lambda scorer: agreement_cell(bench, scorer, one, level),
            under=f'{one.overall or MEAN}; {size_text(one, level)}',
        )

    scorers = sorted(bench.scorers, key=lambda scorer: scorer.is_trivial)
    label = Column(
        'label',
        'Scorer',
        show=lambda one: Cell(one.label, tags=(('trivial', ''),) * one.is_trivial),
    )
    return Table([label, *map(column, sets_of_level(bench, level))], scorers)


def size_text(one: SetAbout, level: str) -> str:
    """
    Return how many points a set has at a level, and of how many they were drawn.
    """
    if level == 'system':
        return f'{one.n_systems} systems'
    if one.n_drawn < one.n_items:
        return f'{one.n_drawn} of {one.n_items} {one.level}s'
    return f'{one.n_items} {one.level}s'


def agreement_cell(
    bench: Bench, scorer: ScorerAbout, one: SetAbout, level: str
) -> Cell:
    """
    Return Spearman, its interval, n where that is not the set's, and a mark where the
    scorer was fitted on the set; where a set has no overall quality, the mean over its
    qualities.
    """
    n = n_text(bench, scorer.label, one, level)
    if one.overall is None:
        value = mean_over_qualities(bench, scorer.label, one.name, level)
        if value is None:
            return Cell(DASH, note='a quality has no coefficient')
        cell = Cell(number(value), (f'(mean{n and f", {n}"})',))
    else:
        row = bench.row(scorer.label, one.name, level)
        if row is None or row.value() is None:
            return Cell(DASH, note=(row.reason or '') if row else 'not scored')
        cell = interval_cell(row.correlations['spearman'])
        cell = replace(cell, below=(*cell.below, *filter(None, [n])))
    if one.name in scorer.fitted_on:
        cell = replace(cell, tags=(('fitted', 'warn'),), mark=FITTED)
    return cell


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


def flip_lines(bench: Bench) -> Iterator[str]:
    """
    Yield how often a scorer's choice changes when the responses change places.
    """
    for scorer, by_set in bench.flips.items():
        parts = [
            f'{100 * k / n:.0f} % of {n} on {name}'
            for name, (k, n) in by_set.items()
            if n
        ]
        if parts:
            yield from wrap_lines(
                f'{scorer}: the choice changes when the two responses change places: '
                f'{", ".join(parts)}'
            )


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
    yield from flip_lines(bench)
    outliers = [f'{s.n_outliers} of {s.name}' for s in bench.sets if s.n_outliers]
    if outliers:
        yield from wrap_lines(
            f'annotations far from the median of their item left out: '
            f'{", ".join(outliers)}'
        )
    drawn = [one.name for one in bench.sets if one.n_drawn < one.n_items]
    if drawn:
        yield from wrap_lines(
            f'whole contexts were drawn with seed {bench.seed} from {", ".join(drawn)}'
        )
