"""
`compare_metrics`: which scorers of a bench differ, and which cannot be told apart.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.core.errors import UserError
from parlai_ext.core.options import read_positive

if TYPE_CHECKING:
    from parlai_ext.bench.compare import BenchComparison

PERMUTATIONS = 10_000


class CompareMetrics(Command):
    """
    Compare the scorers of a bench, item by item; nothing is scored for it.

    Writes ``comparisons.csv``, ``comparisons.json`` and a page, ``comparisons.html``,
    into the folder of the bench.
    """

    description = 'Compare the scorers of a bench: differences, clusters, ceilings'
    usage = 'FOLDER [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'folder',
            nargs='?',
            metavar='FOLDER',
            help='the folder of a bench (run_bench --out FOLDER)',
        )
        parser.add_argument(
            '--quality',
            default='overall',
            metavar='NAME',
            help='by what scorers are compared: the overall quality of each set, a '
            'quality by its name, or each (overall)',
        )
        parser.add_argument(
            '--sets',
            nargs='+',
            metavar='SET',
            help='on which scorers are compared (all of the bench)',
        )
        parser.add_argument(
            '--permutations',
            type=read_positive,
            default=PERMUTATIONS,
            metavar='N',
            help=f'behind each p-value ({PERMUTATIONS})',
        )
        parser.add_argument(
            '--seed', type=int, default=0, help='draws the permutations (0)'
        )

    def run(self) -> BenchComparison:
        """
        Return the comparison, write it, and print it.
        """
        from parlai_ext.bench.compare import (
            compare_bench,
            comparison_data,
        )
        from parlai_ext.bench.compare_table import comparison_lines, difference_table
        from parlai_ext.report.comparison_page import write_comparison_page
        from parlai_ext.store.atomic import write_file

        if not self.opt['folder']:
            raise UserError('FOLDER is needed: the folder of a bench')
        folder = Path(self.opt['folder'])
        result = compare_bench(
            folder,
            sets=self.opt['sets'],
            quality=self.opt['quality'],
            permutations=self.opt['permutations'],
            seed=self.opt['seed'],
            progress=True,
        )
        table = difference_table(result.differences).csv()
        data = json.dumps(comparison_data(result), ensure_ascii=False, indent=1)
        write_file(folder / 'comparisons.csv', table.encode())
        write_file(folder / 'comparisons.json', data.encode() + b'\n')
        print('\n'.join(comparison_lines(result)))
        print(f'page: {write_comparison_page(folder, result)}')
        return result
