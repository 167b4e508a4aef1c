"""
The accuracy of a scorer on pairs of a good and a bad response, by kind of the bad one.
"""

from parlai_ext.commands.command import ModelCommand, print_lines
from parlai_ext.commands.options import MACHINE
from parlai_ext.commands.scorer_options import SCORER_CHOICE
from parlai_ext.core import frozen, option, optional
from parlai_ext.scoring.score_run import choose_scorer
from parlai_ext.view import Column, Table, number, number_column

COLUMNS = (
    Column('kind', 'bad response'),
    number_column('num_pairs', 'pairs'),
    number_column('accuracy', 'accuracy', digits=3),
    number_column(
        'interval',
        '95% interval',
        show=lambda row: (
            number(row.low) + f'–{number(row.high)}' * (row.low is not None)
        ),
    ),
    number_column('num_unscored', 'unscored'),
)


@frozen
class PairsOptions:
    """
    Which pairs are judged.
    """

    pairs: str = option(metavar='FILE', help='pairs of parlai build_pairs')
    limit: int | None = optional(low=1, help='the first N pairs only')


class JudgePairs(ModelCommand):
    """
    Print how often a scorer gives the good response of a pair the higher score.
    """

    usage = '--pairs pairs.jsonl --scorer NAME [option …]'
    declares = (PairsOptions, *SCORER_CHOICE, MACHINE)

    def run(self) -> object:
        """
        Print the table and return its rows.
        """
        from parlai_ext.training.pairs import pair_accuracies, read_response_pairs

        self.require(scorer='a scorer')
        given = self.options(PairsOptions)
        pairs = read_response_pairs(given.pairs)[: given.limit]
        scorer = choose_scorer({}, self.opt).build(self.machine)
        rows = pair_accuracies(scorer, pairs)
        print_lines(Table(COLUMNS, rows).lines())
        print(f'scorer {scorer.signature}')
        return rows
