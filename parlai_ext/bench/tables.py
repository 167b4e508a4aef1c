"""
The tables of a bench and of a comparison of its scorers, for a terminal and a page, and
the sentence that says which scorer to take.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from parlai_ext.bench.bench_files import Bench, ScorerAbout, SetAbout
from parlai_ext.bench.compare import (
    ALL_SETS,
    EACH,
    BenchComparison,
    BestScorer,
    PairDifference,
)
from parlai_ext.core import frozen, grouped, mean
from parlai_ext.ranking.comparison import LEVEL
from parlai_ext.view import (
    DASH,
    Cell,
    Column,
    Table,
    interval_cell,
    number,
    number_column,
    shown_table,
    wrap_lines,
)
from parlai_ext.view.page import terminal_lines

Row = TypeVar('Row', bound=Any)  # is of a set and a quality
MEAN = 'mean over qualities'
FITTED = '†'  # marks a scorer in which something was fitted on human scores
LEVELS = {
    'turn': 'turn by turn',
    'dialogue': 'dialogue by dialogue',
    'system': 'system by system',
}


@frozen
class TitledTable:
    """
    A table with its title and sentences about it, for a terminal and a page.

    :param on_page: it is on the page only, folded.
    """

    title: str
    table: Table
    notes: tuple[str, ...] = ()
    on_page: bool = False


def titled_lines(tables: Iterable[TitledTable]) -> Iterator[str]:
    """
    Yield tables for a terminal, each with a blank line after it.
    """
    for one in tables:
        if not one.on_page:
            yield one.title
            if one.table.rows:
                yield from one.table.lines()
            for note in one.notes:
                yield from wrap_lines(note, '  ')
            yield ''


def bench_lines(bench: Bench) -> Iterator[str]:
    """
    Yield the tables of a bench for a terminal, and what is missing.
    """
    yield from titled_lines(level_tables(bench))
    unscored = grouped(
        ((row.scorer, row.reason), row.set_name)
        for row in bench.rows
        if row.value() is None and row.level != 'system' and row.reason
    )
    dropped: Counter[tuple[str, str]] = Counter()
    for scorer, by_set in bench.reasons.items():
        for reasons in by_set.values():
            dropped.update({(scorer, reason): n for reason, n in reasons.items()})
    drawn = [one.name for one in bench.sets if one.n_drawn < one.n_items]
    notes = {'unscored': unscored, 'dropped': dropped, 'drawn': drawn}
    for note in filter(None, terminal_lines('bench_notes', bench=bench, **notes)):
        yield from wrap_lines(note)


def level_tables(bench: Bench) -> Iterator[TitledTable]:
    """
    Yield Spearman of each scorer with people, at each level.
    """
    for level, words in LEVELS.items():
        names = {row.set_name for row in bench.rows if row.level == level}
        if sets := [one for one in bench.sets if one.name in names]:
            title = f'Spearman with people, {words}; in brackets: 95 % interval'
            yield TitledTable(title, level_table(bench, level, sets))


def level_table(bench: Bench, level: str, sets: Sequence[SetAbout]) -> Table:
    """
    Return the matrix of a level: scorers as rows, trivial ones last, and as columns the
    sets that have rows at this level.
    """

    def column(one: SetAbout) -> Column:
        n = f'{one.n_items} {level}s'
        if level == 'system':
            n = f'{one.n_systems} systems'
        elif one.n_drawn < one.n_items:
            n = f'{one.n_drawn} of {n}'
        return number_column(
            one.name,
            one.name,
            show=lambda scorer: agreement_cell(bench, scorer, one, level),
            under=f'{one.overall or MEAN}; {n}',
        )

    scorers = sorted(bench.scorers, key=lambda scorer: scorer.is_trivial)
    label = Column(
        'label',
        'Scorer',
        show=lambda one: Cell(one.label, tags=(('trivial', ''),) * one.is_trivial),
    )
    return Table([label, *map(column, sets)], scorers)


def agreement_cell(
    bench: Bench, scorer: ScorerAbout, one: SetAbout, level: str
) -> Cell:
    """
    Return Spearman, its interval, how many items or systems stand behind it if not
    those under the name of the set, and a mark where the scorer was fitted on the set;
    where a set has no overall quality, the mean over its qualities.
    """
    rows = bench.main_rows(scorer.label, one.name, level)
    overall = next((row for row in rows if row.is_overall), None)
    value, lacking = None, 'not scored'
    if overall is not None:
        value, lacking = overall.value(), overall.reason or ''
    elif one.overall is None:
        value = mean([row.value() for row in rows])
        lacking = 'a quality has no coefficient'
    if value is None:
        return Cell(DASH, note=lacking)
    row, n = overall or rows[0], ''
    if level == 'system' and row.n != one.n_systems:
        n = f'n {row.n}'
    elif row.n_items != one.n_drawn:
        n = f'{row.n_items} items' if level == 'system' else f'n {row.n_items}'
    if overall is None:
        cell = Cell(number(value), (f'(mean{n and f", {n}"})',))
    else:
        cell = interval_cell(overall.correlations['spearman'])
        cell = replace(cell, below=(*cell.below, *filter(None, [n])))
    if one.name in scorer.fitted_on:
        cell = replace(cell, tags=(('fitted', 'warn'),), mark=FITTED)
    return cell


CEILINGS = {
    'single': 'One annotator',
    'ceiling': 'A perfect scorer',
    'reliability': 'Reliability',
    'n': 'Items',
}


def comparison_tables(result: BenchComparison) -> list[TitledTable]:
    """
    Return the clusters of each set, differences, ceilings and redundancy, what is over
    all sets first.
    """
    clusters = (
        'Every scorer of a cluster beats every one of a later cluster (5 %); those of '
        'one cannot be told apart, which is no proof that they are equal. All sets are '
        'those that half of the scorers or more can judge.'
    )
    ceilings = (
        'One annotator with the mean of the others, and what a perfect scorer would '
        'reach with the mean of all (the root of its split-half reliability).'
    )
    if not result.ceilings:
        ceilings = 'No set keeps its annotators one by one: no ceiling is known.'
    redundancy = (
        'Spearman between the scores of two scorers, the mean over sets. Two scorers '
        'near 1 are one.'
    )
    return [
        TitledTable('Clusters', cluster_table(result), (clusters,)),
        *difference_tables(result),
        TitledTable('Ceilings', ceiling_table(result), (ceilings,)),
        TitledTable('Redundancy', redundancy_table(result), (redundancy,)),
    ]


def comparison_lines(result: BenchComparison) -> Iterator[str]:
    """
    Yield a comparison for a terminal, and at the end which scorer to take.
    """
    clusters, *others = comparison_tables(result)
    for name, rows in groupby(clusters.table.rows, key=itemgetter(0)):
        yield name
        for _, cluster, members in rows:
            # they may be more than a column of a terminal holds
            yield from wrap_lines(f'{cluster}. {members}', '  ')
    yield from wrap_lines(clusters.notes[0])
    yield ''
    yield from titled_lines(others)
    yield from wrap_lines(best_sentence(result.best))


def best_sentence(best: BestScorer | None) -> str:
    """
    Return which scorer agrees best with people on these data, with its interval, and
    which trivial scorers it beats.
    """
    if best is None:
        return (
            'For these data no scorer can be named: none but trivial ones has a '
            'correlation with people on each set.'
        )
    unbeaten, turned = [], []
    for rival in best.trivial:
        spearman = number(rival.spearman)
        if not rival.is_beaten:
            p = '' if rival.p is None else f', p {number(rival.p, 4)}'
            unbeaten.append(f'{rival.scorer} ({spearman}{p})')
        if -rival.spearman >= best.spearman > 0:
            turned.append(f'{rival.scorer} ({spearman})')
    rivals = {'unbeaten': unbeaten, 'turned': turned}
    return ' '.join(terminal_lines('best_scorer', best=best, **rivals))


def by_place(result: BenchComparison, rows: Iterable[Row]) -> dict[str, list[Row]]:
    """
    Return the places or differences of a comparison by the name of their set and
    quality, those over all sets first.
    """
    of_all = f'{ALL_SETS}: {result.quality}'
    if result.quality == EACH:
        of_all = f'{ALL_SETS}, {MEAN}'
    groups: dict[str, list[Row]] = {of_all: []}
    for row in rows:
        name = f'{row.set_name}: {row.quality}'
        groups.setdefault(of_all if row.set_name == ALL_SETS else name, []).append(row)
    return groups


def cluster_table(result: BenchComparison) -> Table:
    """
    Return the clusters of each quality of each set, and their members with their
    correlations in words; a label may hold a comma.
    """
    rows = [
        (name, cluster, '; '.join(f'{o.scorer} {number(o.spearman)}' for o in members))
        for name, places in by_place(result, result.places).items()
        for cluster, members in groupby(
            sorted(places, key=lambda one: (one.cluster, -one.spearman)),
            key=attrgetter('cluster'),
        )
    ]
    heads = ('Set and quality', 'Cluster', 'Scorers, the best first')
    return shown_table(heads, rows, n_texts=3)


def ceiling_table(result: BenchComparison) -> Table:
    """
    Return how well annotators of each quality agree.
    """
    rows = [
        {'set_name': name, 'quality': quality, **vars(one)}
        for (name, quality), one in result.ceilings.items()
    ]
    columns = (
        Column(
            'set_name',
            'Set',
            show=lambda row: Cell(row['set_name'], note=row['reason'] or ''),
        ),
        Column('quality', 'Quality', itemgetter('quality')),
        *(number_column(key, head, itemgetter(key)) for key, head in CEILINGS.items()),
    )
    return Table(columns, rows)


def difference_table(rows: Sequence[PairDifference]) -> Table:
    """
    Return differences of scorers; Williams' test is shown where one was made.
    """
    has_williams = any(row.williams_t is not None for row in rows)
    columns = (
        Column('first', 'First'),
        Column('second', 'Second'),
        Column('set_name'),
        Column('quality'),
        number_column('n', 'Items'),
        number_column('n_groups', 'Contexts'),
        number_column('difference', 'First − second'),
        number_column('p', 'p', digits=4),
        number_column('p_holm', 'p, Holm', digits=4),
        number_column('williams_t', 'Williams’ t' if has_williams else None),
        number_column('williams_p', 'its p' if has_williams else None, digits=4),
        Column('williams_reason'),
    )
    return Table(columns, rows)


def difference_tables(result: BenchComparison) -> Iterator[TitledTable]:
    """
    Yield the pairs that one of the two tests tells apart at each place. Williams' test
    is of Pearson's r and not adjusted.
    """
    for k, (name, rows) in enumerate(by_place(result, result.differences).items()):
        beyond = [
            row
            for row in rows
            if row.p_holm < LEVEL
            or (row.williams_p is not None and row.williams_p < LEVEL)
        ]
        beyond.sort(key=lambda row: (row.p_holm, -abs(row.difference)))
        left = len(rows) - len(beyond)
        notes = [f'{len(beyond)} pairs differ, {left} cannot be told apart']
        if rows and rows[0].williams_reason:
            notes.append(f'No Williams’ test: {rows[0].williams_reason}.')
        title = f'Differences of Spearman, {name}'
        yield TitledTable(title, difference_table(beyond), tuple(notes), k > 0)


def redundancy_table(result: BenchComparison) -> Table:
    """
    Return the matrix of Spearman between scorers, means over sets.
    """
    numbered = list(enumerate(result.scorers, 1))
    known = {pair: rho for pair, (rho, _) in result.redundancy.items()}

    def column(number: int, label: str) -> Column:
        return number_column(
            label,
            str(number),
            lambda row: known.get((row[1], label), known.get((label, row[1]))),
        )

    name = Column('scorer', 'Scorer', show=lambda row: f'{row[0]} {row[1]}')
    return Table([name, *(column(*one) for one in numbered)], numbered)
