"""
The main job: collect, score, rank, report — for one protocol, in one command.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import MACHINE, PLAN, RANKING, TRIALS, add_options
from parlai_ext.core.errors import UserError, shown
from parlai_ext.core.machine import Machine

if TYPE_CHECKING:
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
        add_options(
            parser,
            *PLAN,
            '--judge-model-file',
            '--followups',
            *RANKING,
            '--dry-run',
            *TRIALS,
            *MACHINE,
        )

    def run(self) -> Ranking | dict[str, Any]:
        """
        Return the ranking; for a dry run or a pilot, what would be done.
        """
        from parlai_ext.systems.safe.trust import trust_files

        opt = self.opt
        with trust_files(opt.get('trust_model_code'), opt.get('datapath')):
            return self.evaluate()

    def evaluate(self) -> Ranking | dict[str, Any]:
        """
        Do the job, with what the user trusts trusted.
        """
        from parlai_ext.collect import collect, plan, timing
        from parlai_ext.collect.before import before_run
        from parlai_ext.core.options import flag_values
        from parlai_ext.core.ranking_options import RankingOptions
        from parlai_ext.files.human_scores import read_human_scores
        from parlai_ext.report import write as report
        from parlai_ext.report.table import terminal_report
        from parlai_ext.results.rank import rank_run
        from parlai_ext.results.ranking import write_ranking
        from parlai_ext.scoring.score_run import build_scorer, score_run

        opt = self.opt
        human = read_human_scores(opt['human_scores']) if opt['human_scores'] else ()
        ended = before_run(opt, judge=True)
        if ended is not None:
            return ended
        run, planned = plan.prepare(opt)
        with run.lock():
            spent: dict[str, Any] = {}
            with timing.timed(run, 'collect', spent):
                problems = collect.collect(run, opt, spent=spent).problems
            if problems and not run.dialogue_shards():
                raise UserError(f'nothing could be collected: {problems[0]}')
            config = run.manifest['protocol']['scorer']
            with timing.timed(run, 'score'):
                machine, named = Machine.from_options(opt), bool(opt['config'])
                scorer = build_scorer(config, machine, named_by_user=named)
                scored = score_run(run, scorer, config=config)
            options = flag_values(RankingOptions, opt)
            ranking = rank_run(run, scored.signature, human=human, **options)
            write_ranking(run, ranking)
            page = report.write_report(run, ranking)
        for line in (*planned.left_out, *problems):
            print(shown(f'left out: {line}'))
        print(terminal_report(ranking))
        for line in timing.compared(run.root):
            print(line)
        print(f'report: {Path(page).resolve()}')
        if problems:
            raise UserError(f'not all could be collected: {problems[0]}')
        return ranking
