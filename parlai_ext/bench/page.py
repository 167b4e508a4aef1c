"""
The pages of a bench: a matrix for each level, and the comparison of its scorers; and
a picture of how the scorers correlate. Of each set the former has the scores against
people's and one item with its ranks, as Figure 3 and Table 8 of PairEval (Park et al.
2024) do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from parlai_ext.bench.bench_files import Bench, Numbers, SetPoints, agreement_rows_table
from parlai_ext.bench.compare import BenchComparison
from parlai_ext.bench.published import paper_tables
from parlai_ext.bench.tables import best_sentence, comparison_tables, level_tables
from parlai_ext.ranking.agreement import FEWEST_KNOWN
from parlai_ext.view import Table, number, shown_table
from parlai_ext.view.page import render_page

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BENCH_PAGE, COMPARISON_PAGE = 'bench.html', 'comparisons.html'


def render_bench_page(
    bench: Bench,
    closing: str = '',
    points: Sequence[SetPoints] = (),
    texts: Mapping[str, Sequence[Sequence[str]]] | None = None,
) -> str:
    """
    Return the page of a bench as one HTML file.

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
        tables=[*level_tables(bench), *paper_tables(bench, points)],
        details=[
            (one, agreement_rows_table(bench.rows, one.name)) for one in bench.sets
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
