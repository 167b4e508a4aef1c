"""
Rank the targets of a scored run; needs no model, so it imports none.
"""

from __future__ import annotations

import argparse
from typing import Any

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import RULE, add_options
from parlai_ext.core.errors import UserError

LIMITS = ('bootstraps', 'max_failed_share', 'max_truncated_share')


class RankSystems(Command):
    """
    Rank the targets of a run whose dialogues are scored.
    """

    description = 'Rank the targets of a scored run, with intervals'
    usage = '--run-dir FOLDER [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        add_options(parser, '--run-dir', '--human-scores', '--bootstraps')
        add_options(parser, '--max-failed-share', '--max-truncated-share')
        parser.add_argument(
            '--scores',
            help='hash of the scores to rank, or the name of their scorer (default: '
            'those of the protocol’s scorer)',
        )
        add_options(parser, *RULE)

    def run(self) -> dict[str, Any]:
        """
        Return what `ranking.json` holds, and write it.
        """
        from parlai_ext.files.human_scores import read_human_scores
        from parlai_ext.report.table import terminal_table
        from parlai_ext.results.chosen_scores import choose_scores, scores_rule
        from parlai_ext.results.rank import rank_run, rule_of
        from parlai_ext.store import RunFolder

        opt = self.opt
        human = read_human_scores(opt['human_scores']) if opt['human_scores'] else ()
        if not opt['run_dir']:
            raise UserError('--run-dir is needed: the folder of a scored run')
        run = RunFolder.existing(opt['run_dir'])
        with run.lock():
            signature, folder = choose_scores(run, opt['scores'])
            replaced = {**scores_rule(run, signature), **rule_of(opt)}
            replaced |= {key: opt[key] for key in LIMITS if opt[key] is not None}
            ranking = rank_run(run, signature, human=human, **replaced)
            run.write_json(f'{folder}ranking.json', ranking)
        print(terminal_table(ranking))
        return ranking
