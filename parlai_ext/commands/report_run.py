"""
Write the page and the leaderboard of a ranked run; needs no model.
"""

from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import ScoresChoice
from parlai_ext.core import content_id, frozen, optional


@frozen
class ReportOptions:
    """
    What is written besides the page.
    """

    inspect: str | None = optional(
        metavar='FOLDER',
        help='write a log of inspect_ai for each target there: inspect view --log-dir',
    )


class ReportRun(Command):
    """
    Write `report.html` and `leaderboard.csv` of a run that is ranked.
    """

    usage = '--run-dir FOLDER [option …]'
    declares = (ScoresChoice, ReportOptions)
    of_run = 'the folder of a ranked run'

    def run(self) -> object:
        """
        Return the path of the page.
        """
        from parlai_ext.audit.section import audit_doubts
        from parlai_ext.report.page import write_report
        from parlai_ext.report.table import terminal_report
        from parlai_ext.results.ranking import NAME, choose_scores, read_ranking

        run = self.existing_run
        scores = self.options(ScoresChoice).scores
        folder, fragment = '', ''
        # a run may have rankings of other scorers only, as imported dialogues have
        if scores or not (run.root / NAME).exists():
            signature, folder = choose_scores(run, scores)
            fragment = f'#?scorer={content_id(signature)}'
        ranking = read_ranking(run, folder, scores)
        with run.lock():
            page = write_report(run, ranking, folder)
        print(terminal_report(ranking, audit_doubts(run, ranking, folder)))
        print(f'report: {page.resolve()}{fragment}')
        if logs := self.options(ReportOptions).inspect:
            from parlai_ext.report.inspect_log import write_inspect_logs

            write_inspect_logs(run, ranking, Path(logs))
            print(f'logs: inspect view --log-dir {logs}')
        return page
