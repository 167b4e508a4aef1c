"""
The accuracy of a scorer on pairs of a good and a bad response, by kind of the bad one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import MACHINE, add_options, add_scorer_options
from parlai_ext.core.display import number
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import read_positive

if TYPE_CHECKING:
    from parlai_ext.training.pair_accuracy import PairAccuracy


class JudgePairs(Command):
    """
    Print how often a scorer gives the good response of a pair the higher score.
    """

    description = 'How often a scorer prefers the good response of pairs to the bad one'
    usage = '--pairs pairs.jsonl --scorer NAME [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--pairs', metavar='FILE', help='pairs of parlai build_pairs'
        )
        parser.add_argument(
            '--limit', type=read_positive, metavar='N', help='the first N pairs only'
        )
        add_scorer_options(parser)
        add_options(parser, *MACHINE)

    def run(self) -> list[PairAccuracy]:
        """
        Print the table and return its rows.
        """
        self.require(pairs='pairs of parlai build_pairs', scorer='a scorer')
        from parlai_ext.scoring.score_run import choose_scorer
        from parlai_ext.systems.safe.trust import trust_files
        from parlai_ext.training.pair_accuracy import pair_accuracies
        from parlai_ext.training.pairs import read_pairs

        pairs = read_pairs(self.opt['pairs'])[: self.opt['limit']]
        machine = Machine.from_options(self.opt)
        with trust_files(machine.trust_model_code, machine.datapath):
            scorer = choose_scorer({}, self.opt).build(machine)
            rows = pair_accuracies(scorer, pairs)
        print('\n'.join(accuracy_lines(rows)))
        print(f'scorer {scorer.signature}')
        return rows


def accuracy_lines(rows: Sequence[PairAccuracy]) -> list[str]:
    """
    Return the lines of a table of accuracies.
    """
    lines = [f'{"bad response":<14}{"pairs":>7}  accuracy  95% interval  unscored']
    for row in rows:
        interval = f'{number(row.low)}–{number(row.high)}'
        lines.append(
            f'{row.kind:<14}{row.num_pairs:>7}  {number(row.accuracy, 3):>8}  '
            f'{interval:>12}  {row.num_unscored:>8}'
        )
    return lines
