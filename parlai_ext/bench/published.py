"""
Tables that were published, with a bench's scorers beside the teams: one data file each
in ``zoo_configs/published/`` (those with ``columns``); and figures of the paper that a
bench file names (``figures.yaml``).

A scorer's number for a set is the mean of its Spearman correlations with the set's
qualities, times 100. In DSTC10 Track 5, subtask 1, the published average over the 14
development sets is the mean of these numbers; that over the five test sets is the mean
over their 11 correlations, one for each quality (Zhang et al. 2022, section 2.4). The
baseline's printed rows give its printed averages, 13.67 and 18.38; the teams' test rows
are of their best submission to each set, so that their means are a little above the
printed averages. All numbers are printed there without signs; ours have them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from statistics import fmean

import numpy as np
import pandas as pd

from parlai_ext import zoo_configs
from parlai_ext.bench.bench_files import Bench, Numbers, SetPoints
from parlai_ext.bench.tables import FITTED, TitledTable
from parlai_ext.core import frozen, mean
from parlai_ext.files import read_file
from parlai_ext.ranking.agreement import FEWEST_KNOWN
from parlai_ext.ranking.annotator_agreement import krippendorff_alpha, near_median
from parlai_ext.view import count_of, number, shown_table

COEFFICIENTS = ('pearson', 'spearman')
MEASURES = {
    'pairs': 'Spearman, pairs of annotators',
    'one_and_all': 'Spearman, one and the mean of all',
    'alpha': 'Krippendorff’s alpha, without outliers',
    'other': 'other',
}


@frozen
class PublishedTable:
    """
    A table of a paper: 100 times Spearman of each team on each set.

    :param title: what was published, and of which sets (`phase`).
    :param columns: the baseline and the teams.
    :param rows: by set, one number for each column.
    :param average: the printed averages.
    :param qualities: how many qualities each set has, where the average is over them.
    """

    title: str
    phase: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[float, ...]]
    average: tuple[float, ...]
    qualities: Mapping[str, int]

    def average_over(self, numbers: Mapping[str, float]) -> float:
        """
        Return the mean over sets, each counted as often as it has qualities, or once.
        """
        weights = [self.qualities.get(name, 1) for name in numbers]
        return fmean(numbers.values(), weights)

    def averages(self, sets: Sequence[str] = ()) -> list[float]:
        """
        Return the average of each column over some sets (none: all), worked out from
        the rows.
        """
        names = sets or list(self.rows)
        return [
            self.average_over({name: self.rows[name][k] for name in names})
            for k in range(len(self.columns))
        ]


def published_tables() -> Iterator[PublishedTable]:
    """
    Yield the shipped tables.
    """
    for path in sorted((zoo_configs.HOME / 'published').glob('*.yaml')):
        data = read_file(path).data
        for phase in data.get('phases', ()):
            yield PublishedTable(
                data['title'],
                phase,
                tuple(data['columns']),
                {name: tuple(row) for name, row in data[phase].items()},
                tuple(data[f'{phase}_average']),
                data.get(f'{phase}_qualities', {}),
            )


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
    for table in published_tables():
        sets = [one for one in bench.sets if one.name in table.rows]
        names = [one.name for one in sets]
        notes = [f'100 x mean Spearman over qualities; sets here: {", ".join(names)}']
        rows = []
        for scorer in bench.scorers:
            numbers = {
                one.name: 100 * mean
                for one in sets
                if (mean := bench.mean(scorer.label, one.name, one.level)) is not None
            }
            if not numbers:
                continue
            own = number(table.average_over(numbers))
            partly = f' ({len(numbers)} sets)' * (len(numbers) < len(sets))
            mark = f' {FITTED}' * bool(scorer.fitted_on)
            whole = own * (len(numbers) == len(table.rows))
            rows.append((scorer.label + mark, own + partly, whole))
            if scorer.fitted_on:
                here = [name for name in names if name in scorer.fitted_on] or ['none']
                notes.append(
                    f'{FITTED} {scorer.label}: fitted on human scores of '
                    f'{", ".join(scorer.fitted_on)}; of the sets here: '
                    f'{", ".join(here)}'
                )
        if not rows:
            continue
        rows += (
            (f'published: {team}', number(here), number(printed))
            for team, here, printed in zip(
                table.columns, table.averages(names), table.average, strict=True
            )
        )
        heads = ('', f'{count_of(len(sets), "set")} here', f'all {len(table.rows)}')
        title = f'{table.title}, {table.phase} sets'
        yield TitledTable(title, shown_table(heads, rows), tuple(notes))


# ------------------------------------------------------- figures of a bench's paper


def figure_tables(bench: Bench) -> Iterator[TitledTable]:
    """
    Yield Pearson / Spearman, times 100, of each scorer on each set, and below it those
    of the bench's paper whose names begin alike up to a comma, if there are any.

    The last column has the means over the sets here; where some have no number, that of
    the others, and how many they are.
    """
    figures = [
        figure
        for figure in read_file(zoo_configs.path('published', 'figures')).data[
            'figures'
        ]
        if figure['source'] == bench.published
    ]
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
    published = read_file(zoo_configs.path('published', 'dstc10')).data['agreement']
    rows = [
        (
            *(one.set_name, quality, MEASURES[known['measure']], str(value)),
            number(
                agreement_here(
                    one.annotators.get(quality, ()), known['measure'], filtered
                ),
                3,
            ),
        )
        for one in points
        if (known := published.get(one.set_name))
        for quality, value in known['qualities'].items()
    ]
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
        kept = (
            given if filtered else compress(given, near_median(given, 1))
            for given in annotations
        )
        units = {
            k: {str(place): value for place, value in enumerate(given)}
            for k, given in enumerate(kept)
        }
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
