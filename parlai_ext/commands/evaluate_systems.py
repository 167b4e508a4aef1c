"""
The main job: collect, score, rank, report — for one protocol, in one command.
"""

from parlai_ext.collect.options import StopOptions, TrialOptions
from parlai_ext.commands.collect_dialogues import PlanCommand
from parlai_ext.commands.command import print_lines
from parlai_ext.commands.options import PLAN, RANKING, SCORER
from parlai_ext.core import RankingOptions, flag_values
from parlai_ext.engines import EngineOptions, Machine
from parlai_ext.judge_check.record import CheckOptions, RequireCheck, require_passed


class EvaluateSystems(PlanCommand):
    """
    Let systems talk, score what they say, rank them, write the page.

    The same command again goes on where it stopped; with targets added it extends the
    run; with anything else changed it refuses and names the keys.
    """

    declares = (
        *PLAN,
        SCORER,
        CheckOptions,
        *RANKING,
        RequireCheck,
        StopOptions,
        TrialOptions,
        Machine,
        EngineOptions,
    )

    def run(self) -> object:
        """
        Return the ranking; for a dry run a `DryRun`, for a pilot a `Forecast`.
        """
        from parlai_ext.collect.trials import require_stop_options, try_before_run

        self.human_judgements  # noqa: B018 - read for its errors
        asked, machine = self.requested, self.machine
        stop = self.options(StopOptions)
        require_stop_options(stop, asked)
        tried = try_before_run(self.trials, asked, machine, judge=True)
        if tried is not None:
            return tried
        from parlai_ext.audit.section import audit_doubts
        from parlai_ext.collect.forecast import forecast_comparison_lines
        from parlai_ext.collect.not_run import stop_if_incomplete
        from parlai_ext.judge_check.check import check_run
        from parlai_ext.report.page import write_report
        from parlai_ext.report.table import terminal_report
        from parlai_ext.results.ranking import (
            rank_scores,
            read_run_scores,
            write_ranking,
        )
        from parlai_ext.stopping.run import collect_until_settled

        rules = flag_values(RankingOptions, self.opt)
        scored = collect_until_settled(
            asked, machine, self.options(EngineOptions), stop, rules
        )
        run = scored.run
        with run.lock():
            scores = read_run_scores(run, scored.signature, rules)
            check_run(run, scored.scorer, sample=self.opt['check_sample'])
            ranking = rank_scores(scores, self.human_judgements)
            write_ranking(run, ranking)
            page = write_report(run, ranking, tables=scores.tables)
        print_lines(f'left out: {line}' for line in scored.left_out)
        print(terminal_report(ranking, audit_doubts(run, ranking)))
        print_lines([*forecast_comparison_lines(run), f'report: {page.resolve()}'])
        stop_if_incomplete(run, scored.problems)
        if self.opt['require_judge_check']:
            require_passed(ranking.leading_check)
        return ranking
