"""
Write the page and the leaderboard of a ranked run; needs no model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import add_options


class ReportRun(Command):
    """
    Write `report.html` and `leaderboard.csv` of a run that is ranked.
    """

    description = 'Write the page and the leaderboard of a ranked run'
    usage = '--run-dir FOLDER [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        add_options(parser, '--run-dir')
        parser.add_argument(
            '--scores',
            help='hash of the scores whose ranking to show, or their scorer’s name '
            '(default: those of the protocol’s scorer)',
        )

    def run(self) -> Path:
        """
        Return the path of the page.
        """
        from parlai_ext.core.nouns import content_id
        from parlai_ext.report.audit_doubt import audit_doubts
        from parlai_ext.report.table import terminal_report
        from parlai_ext.report.write import write_report
        from parlai_ext.results.chosen_scores import choose_scores
        from parlai_ext.results.ranking import NAME, read_ranking
        from parlai_ext.store import RunFolder

        self.require(run_dir='the folder of a ranked run')
        run = RunFolder.existing(self.opt['run_dir'])
        folder, fragment = '', ''
        # a run may have rankings of other scorers only, as imported dialogues have
        if self.opt['scores'] or not (run.root / NAME).exists():
            signature, folder = choose_scores(run, self.opt['scores'])
            fragment = f'#?scorer={content_id(signature)}'
        ranking = read_ranking(run, folder, self.opt['scores'])
        with run.lock():
            page = write_report(run, ranking, folder)
        print(terminal_report(ranking, audit_doubts(run, ranking, folder)))
        print(f'report: {page.resolve()}{fragment}')
        return page
