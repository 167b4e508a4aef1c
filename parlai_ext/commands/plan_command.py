"""
The commands that begin with a protocol: what is wrong with it is said before all else.
"""

from __future__ import annotations

from functools import cached_property

from parlai_ext.collect.options import PlanOptions, TrialOptions
from parlai_ext.commands.command import ModelCommand


class PlanCommand(ModelCommand):
    """
    A command that plays a protocol, or goes on with a run.
    """

    usage = '--config NAME|FILE --run-dir FOLDER [option …]'

    @cached_property
    def plan_options(self) -> PlanOptions:
        """
        What is played, as the flags say; its protocol is read once.
        """
        return PlanOptions.from_options(self.opt)

    @cached_property
    def trials(self) -> TrialOptions:
        """
        What is tried before the run.
        """
        return self.options(TrialOptions)

    def check_early(self) -> None:
        """
        Refuse a protocol, a roster or a run folder with a mistake.
        """
        from parlai_ext.collect.plan import requested_protocol

        requested_protocol(self.plan_options)
        if not (self.trials.dry_run or self.trials.pilot):
            self.require(run_dir='the folder that the run goes to')
