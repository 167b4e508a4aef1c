"""
`compare_metrics`: which scorers of a bench differ, and which cannot be told apart.
"""

from pathlib import Path

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.store import json_text, write_texts

PERMUTATIONS = 10_000
PICTURES = ('.png', '.svg', '.pdf')


@frozen
class CompareOptions:
    """
    Which bench is compared, and how.
    """

    folder: str = option(
        positional=True,
        metavar='FOLDER',
        help='the folder of a bench (run_bench --out FOLDER)',
    )
    quality: str = option(
        'overall',
        metavar='NAME',
        help='by what scorers are compared: the overall quality of each set, a '
        'quality by its name, or each (overall)',
    )
    sets: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='SET',
        help='on which scorers are compared (all of the bench)',
    )
    permutations: int = option(
        PERMUTATIONS,
        low=1,
        high=10_000_000,
        help=f'behind each p-value ({PERMUTATIONS})',
    )
    seed: int = option(0, low=0, help='draws the permutations (0)')
    figure: str | None = optional(
        metavar='FILE',
        help='draw how scorers correlate over the items of all sets (.png, .svg, .pdf)',
    )

    def __post_init__(self) -> None:
        if self.figure and Path(self.figure).suffix not in PICTURES:
            raise UserError(
                f'--figure {self.figure}: a file is expected in {", ".join(PICTURES)}'
            )


class CompareMetrics(Command):
    """
    Compare the scorers of a bench, item by item; nothing is scored for it.

    Writes ``comparisons.csv``, ``comparisons.json`` and a page, ``comparisons.html``,
    into the folder of the bench.
    """

    usage = 'FOLDER [option …]'
    declares = (CompareOptions,)

    def run(self) -> object:
        """
        Return the comparison, write it, and print it.
        """
        from parlai_ext.bench.bench_files import read_bench, read_points

        given = self.options(CompareOptions)
        folder = Path(given.folder)
        bench = read_bench(folder)
        from parlai_ext.bench import tables
        from parlai_ext.bench.compare import compare_bench, comparison_data

        result = compare_bench(
            folder,
            sets=given.sets,
            quality=given.quality,
            permutations=given.permutations,
            seed=given.seed,
        )
        texts = {
            'comparisons.csv': tables.difference_table(result.differences).csv(),
            'comparisons.json': json_text(comparison_data(result)),
            tables.COMPARISON_PAGE: tables.render_comparison_page(result),
        }
        write_texts(folder, texts)
        print_lines(tables.comparison_lines(result))
        print(f'page: {folder / tables.COMPARISON_PAGE}')
        if given.figure:
            names = given.sets or [one.name for one in bench.sets]
            points = [read_points(folder, name) for name in names]
            tables.correlation_figure(points).savefig(given.figure, dpi=120)
            print(f'figure: {given.figure}')
        return result
