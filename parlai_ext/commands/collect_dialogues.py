"""
The first stage alone: let the systems of a protocol talk.
"""

import os
from functools import cached_property
from pathlib import Path

from parlai_ext.collect.options import PlanOptions, TrialOptions
from parlai_ext.collect.plan import (
    RequestedProtocol,
    refuse_missing,
    requested_protocol,
)
from parlai_ext.commands.command import ModelCommand, print_lines
from parlai_ext.commands.options import PLAN
from parlai_ext.core import UserError
from parlai_ext.engines import EngineOptions, Machine
from parlai_ext.view import count_of


class PlanCommand(ModelCommand):
    """
    A command that plays a protocol, or goes on with a run.
    """

    usage = '--config NAME|FILE --run-dir FOLDER [option …]'

    @cached_property
    def requested(self) -> RequestedProtocol:
        """
        What is played, as the flags say; the protocol and the manifest are read once.
        """
        return requested_protocol(PlanOptions.from_options(self.opt))

    @cached_property
    def trials(self) -> TrialOptions:
        """
        What is tried before the run.
        """
        return self.options(TrialOptions)

    def scorer_values(self) -> list[str]:
        return list(map(str, self.requested.protocol.scorer.values()))

    def check_early(self) -> None:
        """
        Refuse a protocol, a roster or a run folder with a mistake.
        """
        from parlai_ext.systems.task_data import require_openers

        super().check_early()
        asked, run_dir = self.requested, self.opt['run_dir']
        if run_dir:
            places = (Path(run_dir), *Path(run_dir).parents)
            place = next(path for path in places if path.exists())
            problem = 'is a file; a folder is needed there'
            if place.is_dir():
                problem = '' if os.access(place, os.W_OK) else 'cannot be written'
            if problem:
                raise UserError(f'--run-dir {run_dir}: {place} {problem}')
        require_openers(asked.protocol.openers, asked.openers_file)
        if self.trials.dry_run or self.trials.pilot:
            return
        self.require(run_dir='the folder that the run goes to')
        # a preflight says of each system whether it is there
        if not (self.trials.preflight or self.opt['skip_missing']):
            refuse_missing(asked.needed_systems)


class CollectDialogues(PlanCommand):
    """
    Collect the dialogues of a run that are not there yet.
    """

    declares = (*PLAN, TrialOptions, Machine, EngineOptions)

    def run(self) -> object:
        """
        Return a `CollectReport`; for a dry run a `DryRun`, for a pilot a `Forecast`.
        """
        from parlai_ext.collect.collect import collected_run
        from parlai_ext.collect.forecast import forecast_comparison_lines
        from parlai_ext.collect.not_run import stop_if_incomplete
        from parlai_ext.collect.trials import try_before_run

        asked, machine = self.requested, self.machine
        result = try_before_run(self.trials, asked, machine, judge=False)
        if result is not None:
            return result
        with collected_run(asked, machine, self.options(EngineOptions)) as collected:
            run, report = collected.run, collected.report
        print_lines(f'left out: {line}' for line in collected.left_out)
        if report.problems and not report.n_played:
            raise UserError(f'nothing could be collected: {report.problems[0]}')
        print(
            f'{count_of(report.n_played, "dialogue")} collected, {report.n_skipped} '
            f'were there or left out: {run.root / "dialogues"}'
        )
        print_lines(forecast_comparison_lines(run))
        stop_if_incomplete(run, report.problems)
        return report
