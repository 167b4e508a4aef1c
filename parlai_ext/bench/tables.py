"""
What a bench shows, in a terminal and on its pages: how its scorers agree with people,
what papers published about the same sets, how the scorers compare, and the sentence
that says which one to take.

The page of a bench has a matrix for each level, and of each set the scores against
people's and one item with its ranks, as Figure 3 and Table 8 of PairEval (Park et al.
2024) do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, groupby
from operator import attrgetter, itemgetter
from statistics import fmean
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from parlai_ext.bench.bench_files import (
    ROW_COLUMNS,
    Bench,
    Numbers,
    ScorerAbout,
    SetAbout,
    SetPoints,
)
from parlai_ext.bench.compare import (
    ALL_SETS,
    EACH,
    BenchComparison,
    BestScorer,
    PairDifference,
)
from parlai_ext.core import frozen, grouped, mean
from parlai_ext.files import read_shipped
from parlai_ext.ranking.agreement import FEWEST_KNOWN, krippendorff_alpha, near_median
from parlai_ext.ranking.comparison import LEVEL
from parlai_ext.view import (
    DASH,
    Cell,
    Column,
    Table,
    count_of,
    interval_cell,
    number,
    number_column,
    p_column,
    p_value,
    shown_table,
    wrap_lines,
)
from parlai_ext.view.page import render_page, terminal_notes, terminal_sentence

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BENCH_PAGE, COMPARISON_PAGE = 'bench.html', 'comparisons.html'
Row = TypeVar('Row', bound=Any)  # is of a set and a quality
MEAN = 'mean over qualities'
FITTED = '†'  # marks a scorer in which something was fitted on human scores


@frozen
class TitledTable:
    """
    A table with its title and sentences about it, for a terminal and a page.

    :param on_page: it is on the page only, folded.
    """

    title: str
    table: Table
    notes: Sequence[str] = ()
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
    for note in terminal_notes(
        'bench_notes', bench=bench, unscored=unscored, dropped=dropped
    ):
        yield from wrap_lines(note)


def level_tables(bench: Bench) -> Iterator[TitledTable]:
    """
    Yield Spearman of each scorer with people, at each level.
    """
    title = 'Spearman with people, {0} by {0}; in brackets: 95 % interval'
    for level in ('turn', 'dialogue', 'system'):
        names = {row.set_name for row in bench.rows if row.level == level}
        if sets := [one for one in bench.sets if one.name in names]:
            yield TitledTable(title.format(level), level_table(bench, level, sets))


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
    if one.overall is not None:
        rows = [row for row in rows if row.is_overall]
    value = mean([row.value() for row in rows])
    if value is None:
        lacking = rows[0].reason or '' if rows else 'not scored'
        if one.overall is None:
            lacking = 'a quality has no coefficient'
        return Cell(DASH, note=lacking)
    row, n = rows[0], ''
    if level == 'system' and row.n != one.n_systems:
        n = f'n {row.n}'
    elif row.n_items != one.n_drawn:
        n = f'{row.n_items} items' if level == 'system' else f'n {row.n_items}'
    if one.overall is None:
        cell = Cell(number(value), (f'(mean{n and f", {n}"})',))
    else:
        cell = interval_cell(row.correlations['spearman'])
        cell = replace(cell, below=(*cell.below, *filter(None, [n])))
    if one.name in scorer.fitted_on:
        cell = replace(cell, tags=(('fitted', 'warn'),), mark=FITTED)
    return cell


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
    rivals = best.trivial if best else ()
    return terminal_sentence(
        'best_scorer',
        best=best,
        beaten=[one.scorer for one in rivals if one.is_beaten],
        unbeaten=[
            f'{one.scorer} ({number(one.spearman)}'
            + ('' if one.p is None else f', p {p_value(one.p)}')
            + ')'
            for one in rivals
            if not one.is_beaten
        ],
        turned=[
            f'{one.scorer} ({number(one.spearman)})'
            for one in rivals
            if best and -one.spearman >= best.spearman > 0
        ],
    )


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
        SimpleNamespace(set_name=name, quality=quality, **vars(one))
        for (name, quality), one in result.ceilings.items()
    ]
    columns = (
        Column(
            'set_name',
            'Set',
            show=lambda row: Cell(row.set_name, note=row.reason or ''),
        ),
        Column('quality', 'Quality'),
        number_column('single', 'One annotator'),
        number_column('ceiling', 'A perfect scorer'),
        number_column('reliability', 'Reliability'),
        number_column('n', 'Items'),
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
        p_column('p', 'p'),
        p_column('p_holm', 'p, Holm'),
        number_column('williams_t', 'Williams’ t' if has_williams else None),
        p_column('williams_p', 'its p' if has_williams else None),
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
        notes = [f'pairs that differ: {len(beyond)}; not told apart: {left}']
        if rows and rows[0].williams_reason:
            notes.append(f'No Williams’ test: {rows[0].williams_reason}.')
        title = f'Differences of Spearman, {name}'
        yield TitledTable(title, difference_table(beyond), notes, k > 0)


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


# --- what papers published ------------------------------------------------------------
# Tables that were published, with a bench's scorers beside the teams, and figures of
# the paper that a bench file names: ``dstc10.yaml`` and ``figures.yaml`` in
# ``zoo_configs/published/``.
#
# A scorer's number for a set is the mean of its Spearman correlations with the set's
# qualities, times 100. In DSTC10 Track 5, subtask 1, the published average over the
# 14 development sets is the mean of these numbers; that over the five test sets is
# the mean over their 11 correlations, one for each quality (Zhang et al. 2022,
# section 2.4). The baseline's printed rows give its printed averages, 13.67 and
# 18.38; the teams' test rows are of their best submission to each set, so that their
# means are a little above the printed averages. All numbers are printed there without
# signs; ours have them.

COEFFICIENTS = ('pearson', 'spearman')
MEASURES = {
    'pairs': 'Spearman, pairs of annotators',
    'one_and_all': 'Spearman, one and the mean of all',
    'alpha': 'Krippendorff’s alpha, without outliers',
    'other': 'other',
}


def average_over(numbers: Mapping[str, float], qualities: Mapping[str, int]) -> float:
    """
    Return the mean of the numbers of sets, each counted as often as it has qualities.

    :param qualities: how many each set has; one that is not there counts once.
    """
    return fmean(numbers.values(), [qualities.get(name, 1) for name in numbers])


def paper_tables(bench: Bench, points: Iterable[SetPoints]) -> Iterator[TitledTable]:
    """
    Yield what was published, beside what the bench gives, as far as it has the sets.
    """
    yield from team_tables(bench)
    yield from figure_tables(bench)
    yield from annotator_tables(points, any(one.n_outliers for one in bench.sets))


def team_tables(bench: Bench) -> Iterator[TitledTable]:
    """
    Yield the published tables with the scorers of a bench above the teams: the average
    over the sets at hand, and that over all sets.
    """
    data = read_shipped('published', 'dstc10').data
    for phase in ('development', 'test'):
        published, qualities = data[phase], data.get(f'{phase}_qualities', {})
        sets = [one for one in bench.sets if one.name in published]
        names = [one.name for one in sets]
        notes = [f'100 x mean Spearman over qualities; sets here: {", ".join(names)}']
        rows = []
        for scorer in bench.scorers:
            means = {o.name: bench.mean(scorer.label, o.name, o.level) for o in sets}
            known = {name: 100 * n for name, n in means.items() if n is not None}
            if not known:
                continue
            own = number(average_over(known, qualities))
            partly = f' ({len(known)} sets)' * (len(known) < len(sets))
            mark = f' {FITTED}' * bool(scorer.fitted_on)
            whole = own * (len(known) == len(published))
            rows.append((scorer.label + mark, own + partly, whole))
            if scorer.fitted_on:
                notes.append(fitted_note(scorer, names))
        if not rows:
            continue
        for k, team in enumerate(data['columns']):
            here = average_over({n: published[n][k] for n in names}, qualities)
            printed = number(data[f'{phase}_average'][k])
            rows.append((f'published: {team}', number(here), printed))
        heads = ('', f'{count_of(len(sets), "set")} here', f'all {len(published)}')
        title = f'DSTC10 Track 5, {phase} sets'
        yield TitledTable(title, shown_table(heads, rows), notes)


def fitted_note(scorer: ScorerAbout, names: Iterable[str]) -> str:
    """
    Return the note on a scorer that was fitted on human scores, perhaps of these sets.
    """
    here = [name for name in names if name in scorer.fitted_on] or ['none']
    return (
        f'{FITTED} {scorer.label}: fitted on human scores of '
        f'{", ".join(scorer.fitted_on)}; of the sets here: {", ".join(here)}'
    )


# ------------------------------------------------------- figures of a bench's paper


def figure_tables(bench: Bench) -> Iterator[TitledTable]:
    """
    Yield Pearson / Spearman, times 100, of each scorer on each set, and below it those
    of the bench's paper whose names begin alike up to a comma, if there are any.

    The last column has the means over the sets here; where some have no number, that of
    the others, and how many they are.
    """
    every = read_shipped('published', 'figures').data['figures']
    figures = [figure for figure in every if figure['source'] == bench.published]
    known = {name for figure in figures for name in figure['spearman']}
    sets = [one for one in bench.sets if one.name in known]
    if not sets:
        return
    rows = defaultdict(list)
    for scorer in bench.scorers:
        ours = [bench.row(scorer.label, one.name, one.level) for one in sets]
        values = [
            [row.value(name) if row else None for row in ours] for name in COEFFICIENTS
        ]
        rows[scorer.label.split(',')[0]].append((scorer.label, *figure_cells(*values)))
    for figure in figures:
        values = [
            [figure.get(c, {}).get(one.name) for one in sets] for c in COEFFICIENTS
        ]
        rows[figure['scorer'].split(',')[0]].append(
            (f'published: {figure["scorer"]}', *figure_cells(*values))
        )
    heads = ('', *(one.name for one in sets), 'mean')
    about = '100 x Pearson / Spearman with people; numbers in brackets: sets'
    table = shown_table(heads, chain(*rows.values()))
    yield TitledTable(bench.published, table, (about,))


def figure_cells(pearson: Numbers, spearman: Numbers) -> list[str]:
    """
    Return the texts of two coefficients on some sets, and of their means.
    """
    both = [*zip(pearson, spearman, strict=True)]
    known = [(r, rho) for r, rho in both if r is not None and rho is not None]
    means = tuple(map(fmean, zip(*known, strict=True)))
    partly = f' ({len(known)})' if 0 < len(known) < len(both) else ''
    *cells, mean = (
        ' / '.join(number(None if v is None else 100 * v, 1) for v in pair)
        for pair in (*both, means or (None, None))
    )
    return [*cells, mean + partly]


# ------------------------------------------------------------ agreement of annotators


def annotator_tables(
    points: Iterable[SetPoints], filtered: bool
) -> Iterator[TitledTable]:
    """
    Yield how well annotators agree according to the Track's paper, and here; nothing
    without one of its sets.

    :param filtered: outliers are not among the annotations any more.
    """
    published = read_shipped('published', 'dstc10').data['agreement']
    rows = []
    for one in points:
        known = published.get(one.set_name, {'qualities': {}})
        for quality, value in known['qualities'].items():
            measure, given = known['measure'], one.annotators.get(quality, ())
            here = number(agreement_here(given, measure, filtered), 3)
            rows.append((one.set_name, quality, MEASURES[measure], str(value), here))
    if not rows:
        return
    heads = ('set', 'quality', 'measure', 'published', 'here')
    table = shown_table(heads, rows, n_texts=3)
    yield TitledTable('DSTC10 Track 5: agreement of annotators', table)


def agreement_here(
    annotations: Sequence[Sequence[float]], measure: str, filtered: bool = False
) -> float | None:
    """
    Return how well annotators agree, by a measure of `MEASURES`; `None` where it cannot
    be said.

    :param annotations: of each item. Annotators are told apart by their places.
    """
    if measure == 'alpha':
        units = {}
        for k, given in enumerate(annotations):
            near = given if filtered else compress(given, near_median(given, 1))
            units[k] = {str(place): value for place, value in enumerate(near)}
        return krippendorff_alpha(units, 'interval').value
    table = pd.DataFrame(map(list, annotations), dtype=float)
    width = table.shape[1]
    if measure == 'other' or width < 2:
        return None
    # the last column is the mean of all
    table[width] = table.mean(axis=1)
    matrix = table.corr('spearman', min_periods=FEWEST_KNOWN).to_numpy()
    values = matrix[:-1, -1]
    if measure == 'pairs':
        values = matrix[np.triu_indices(width, 1)]
    known = values[~np.isnan(values)].tolist()
    return mean(known)


# --- pages and a picture --------------------------------------------------------------


def render_bench_page(
    bench: Bench,
    papers: Iterable[TitledTable],
    closing: str = '',
    points: Sequence[SetPoints] = (),
    texts: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> str:
    """
    Return the page of a bench as one HTML file.

    :param papers: what `paper_tables` yields for it.
    :param closing: the sentence that says which scorer agrees best with people.
    :param points: of the sets that are to be drawn.
    :param texts: by set, the utterances of each item of its points.
    """
    by_set = {one.set_name: one for one in points if one.human}
    examples = {name: disputed_item(one) for name, one in by_set.items()}
    return render_page(
        'bench.html.j2',
        bench=bench,
        closing=closing,
        tables=[*level_tables(bench), *papers],
        details=[
            (one, Table(ROW_COLUMNS, [r for r in bench.rows if r.set_name == one.name]))
            for one in bench.sets
        ],
        scatters={name: scatters(one) for name, one in by_set.items()},
        examples={
            name: (texts[name][place] if texts else (), table)
            for name, (place, table) in examples.items()
        },
    )


def people_scores(points: SetPoints) -> Numbers:
    """
    Return people's mean of each item for the quality of an item as a whole, or for the
    first one where a set has none.
    """
    return points.human[points.overall or next(iter(points.human))]


def scatters(points: SetPoints) -> list[tuple[str, str]]:
    """
    Return for each scorer its label and the dots of its scores, to the right, and of
    people's, upwards, as the path of a drawing of 100 by 100.
    """
    drawn = []
    for label, scores in points.scores.items():
        dots = np.array([scores, people_scores(points)], dtype=float).T
        dots = dots[~np.isnan(dots).any(axis=1)]
        if len(dots):
            spans = np.ptp(dots, axis=0)
            scaled = 100 * (dots - dots.min(axis=0)) / np.where(spans > 0, spans, 1)
            places = sorted({(int(x), int(100 - y)) for x, y in scaled})
            drawn.append((label, ''.join(f'M{x} {y}h0' for x, y in places)))
    return drawn


def disputed_item(points: SetPoints) -> tuple[int, Table]:
    """
    Return the place of the item whose ranks, by people and by the scorers, differ most
    (the deviation of the ranks, each over the number of items that are ranked), and a
    table of its scores and ranks; 1 is best, and equals share the best rank.
    """
    table = pd.DataFrame(
        [people_scores(points), *points.scores.values()],
        index=['people', *points.scores],
        dtype=float,
    )
    ranks = table.rank(axis=1, ascending=False, method='min')
    counts = table.count(axis=1)
    spreads = ranks.div(counts, axis=0).std(ddof=0)
    place = int(np.argmax(spreads.fillna(0)))
    rows = [
        (label, number(score, 3), f'{rank:.0f} of {n}')
        for label, score, rank, n in zip(
            table.index, table[place], ranks[place], counts, strict=True
        )
        if np.isfinite(rank)
    ]
    return place, shown_table(('Judge', 'Score', 'Rank'), rows)


def render_comparison_page(result: BenchComparison) -> str:
    """
    Return the page of a comparison as one HTML file, what is over all sets first.
    """
    return render_page(
        'comparison.html.j2',
        result=result,
        closing=best_sentence(result.best),
        tables=comparison_tables(result),
    )


def correlation_figure(points: Sequence[SetPoints]) -> Figure:
    """
    Draw Spearman between the main scores of each two scorers, over all items of these
    sets together, as Figure 1 of DSTC10 Track 5 (Zhang et al. 2022) does of its
    submissions.

    :return: a figure of matplotlib, bound to no window; `savefig` writes it.
    """
    from matplotlib.figure import Figure  # it takes long

    tables = (
        pd.DataFrame(one.scores, range(len(one.groups)), dtype=float) for one in points
    )
    frame = pd.concat(tables)
    labels = [str(label) for label in frame]
    matrix = frame.corr('spearman', min_periods=FEWEST_KNOWN).to_numpy()
    size = 2 + 0.4 * len(labels)
    figure = Figure(figsize=(size + 1, size), layout='constrained')
    axes = figure.add_subplot()
    image = axes.imshow(matrix, vmin=-1, vmax=1, cmap='RdBu_r')
    for (y, x), value in np.ndenumerate(matrix):
        axes.text(x, y, number(value), ha='center', va='center', fontsize=7)
    axes.set_xticks(range(len(labels)), labels, rotation=90, fontsize=8)
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    about = f'Spearman over {len(frame)} items of {len(points)} sets'
    figure.colorbar(image, label=about)
    return figure
