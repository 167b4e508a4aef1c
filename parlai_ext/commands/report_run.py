"""
Write the page and the leaderboard of a ranked run; needs no model.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import add_options
from parlai_ext.core.errors import UserError

NEEDED = ('signature', 'protocol', 'dimensions')


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
        from parlai_ext.report.table import in_words
        from parlai_ext.report.write import write_report
        from parlai_ext.results.chosen_scores import choose_scores
        from parlai_ext.store import RunFolder

        if not self.opt['run_dir']:
            raise UserError('--run-dir is needed: the folder of a ranked run')
        run = RunFolder.existing(self.opt['run_dir'])
        folder, again = '', f'parlai rank_systems --run-dir {run.root}'
        if self.opt['scores']:
            _, folder = choose_scores(run, self.opt['scores'])
            again += f' --scores {self.opt["scores"]}'
        place = f'{folder}ranking.json'
        if not (run.root / place).exists():
            raise UserError(f'{run.root} has no {place}: rank it first: {again}')
        ranking = run.read_json(place)
        if not isinstance(ranking, dict) or not set(NEEDED) <= set(ranking):
            raise UserError(
                f'{run.root / place} is damaged; rank the run again: {again}'
            )
        with run.lock():
            page = write_report(run, ranking, folder)
        print(in_words(ranking))
        print(f'report: {page.resolve()}')
        return page
