"""
The first stage alone: let the systems of a protocol talk.
"""

from __future__ import annotations

import argparse
from typing import Any

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import MACHINE, PLAN, TRIALS, add_options
from parlai_ext.core.errors import UserError, shown


class CollectDialogues(Command):
    """
    Collect the dialogues of a run that are not there yet.
    """

    description = 'Let systems talk; the same command again goes on where it stopped'
    usage = '--config NAME|FILE --run-dir FOLDER [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        add_options(parser, *PLAN, '--dry-run', *TRIALS, *MACHINE)

    def run(self) -> Any:
        """
        Return a `CollectReport` (for a dry run or a pilot: what would be done).
        """
        from parlai_ext.systems.safe.trust import trust_files

        opt = self.opt
        with trust_files(opt.get('trust_model_code'), opt.get('datapath')):
            return self.collected()

    def collected(self) -> Any:
        """
        Do the job, with what the user trusts trusted.
        """
        from parlai_ext.collect.before import before_run
        from parlai_ext.collect.collect import collect
        from parlai_ext.collect.plan import prepare
        from parlai_ext.collect.timing import compared, timed

        ended = before_run(self.opt, judge=False)
        if ended is not None:
            return ended
        run, plan = prepare(self.opt)
        spent: dict[str, Any] = {}
        with run.lock(), timed(run, 'collect', spent):
            report = collect(run, self.opt, spent=spent)
        for line in (*plan.left_out, *report.problems):
            print(shown(f'left out: {line}'))
        if report.problems and not report.n_played:
            raise UserError(f'nothing could be collected: {report.problems[0]}')
        print(
            f'{report.n_played} dialogues collected, {report.n_skipped} were there or '
            f'left out: {run.root / "dialogues"}'
        )
        for line in compared(run.root):
            print(line)
        if report.problems:
            raise UserError(f'not all could be collected: {report.problems[0]}')
        return report
