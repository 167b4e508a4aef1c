"""
The main job: collect, score, rank, report — for one protocol, in one command.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.collect.options import PlanOptions, TrialOptions
from parlai_ext.commands.command import Command
from parlai_ext.commands.options import (
    CHECK,
    ENGINE,
    MACHINE,
    PLAN,
    RANKING,
    REQUIRE,
    SCORER,
    TRIALS,
    add_options,
)
from parlai_ext.core.errors import UserError, printable
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import flag_values, read_options
from parlai_ext.engines.options import EngineOptions, open_engine

if TYPE_CHECKING:
    from parlai_ext.collect.forecast import Forecast
    from parlai_ext.collect.trials import DryRun
    from parlai_ext.results.ranking import Ranking


class EvaluateSystems(Command):
    """
    Let systems talk, score what they say, rank them, write the page.

    The same command again goes on where it stopped; with targets added it extends the
    run; with anything else changed it refuses and names the keys.
    """

    description = 'Let systems talk, score what they say, rank them, write a page'
    usage = '--config NAME|FILE --run-dir FOLDER [option …]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        ranking = *CHECK, *RANKING, *REQUIRE
        add_options(parser, *PLAN, *SCORER, *ranking, *TRIALS, *MACHINE, *ENGINE)

    def run(self) -> Ranking | DryRun | Forecast:
        """
        Return the ranking; for a dry run a `DryRun`, for a pilot a `Forecast`.
        """
        from parlai_ext.systems.safe.trust import trust_files

        machine = Machine.from_options(self.opt)
        with trust_files(machine.trust_model_code, machine.datapath):
            return self._evaluate(PlanOptions.from_options(self.opt), machine)

    def _evaluate(
        self, options: PlanOptions, machine: Machine
    ) -> Ranking | DryRun | Forecast:
        from parlai_ext.collect.collect import collect
        from parlai_ext.collect.forecast import comparison_lines, timed
        from parlai_ext.collect.plan import prepare
        from parlai_ext.collect.trials import try_before_run
        from parlai_ext.core.ranking_options import RankingOptions
        from parlai_ext.files.human_scores import read_human_scores
        from parlai_ext.judge_check.check_run import check_run
        from parlai_ext.judge_check.options import require_passed
        from parlai_ext.report import write as report
        from parlai_ext.report.table import terminal_report
        from parlai_ext.results.rank import rank_run
        from parlai_ext.results.ranking import write_ranking
        from parlai_ext.scoring.score_run import build_scorer, score_run

        opt = self.opt
        human = read_human_scores(opt['human_scores']) if opt['human_scores'] else ()
        trials = read_options(TrialOptions, flag_values(TrialOptions, opt))
        result = try_before_run(trials, options, machine, judge=True)
        if result is not None:
            return result
        run, plan = prepare(options, machine)
        with run.lock():
            spent: dict[str, Any] = {}
            where = self.options(EngineOptions)
            with open_engine(where, run.root, machine) as engine:
                with timed(run, 'collect', spent):
                    collected = collect(run, machine, spent=spent, engine=engine)
                problems = collected.problems
                if problems and not run.dialogue_shards():
                    raise UserError(f'nothing could be collected: {problems[0]}')
                config = run.manifest['protocol']['scorer']
                named = bool(opt['config'])
                with timed(run, 'score'):
                    scorer = build_scorer(config, machine, named_by_user=named)
                    scored = score_run(
                        *(run, scorer),
                        config=config,
                        engine=engine,
                        machine=machine,
                        named_by_user=named,
                    )
            check_run(run, scorer, sample=opt['check_sample'])
            rules = flag_values(RankingOptions, opt)
            ranking = rank_run(run, scored.signature, human=human, **rules)
            write_ranking(run, ranking)
            page = report.write_report(run, ranking)
        for line in (*plan.left_out, *problems):
            print(printable(f'left out: {line}'))
        print(terminal_report(ranking))
        for line in comparison_lines(run):
            print(line)
        print(f'report: {Path(page).resolve()}')
        if problems:
            raise UserError(f'not all could be collected: {problems[0]}')
        if opt['require_judge_check']:
            require_passed(ranking.leading_check)
        return ranking
