"""
The main job: collect, score, rank, report — for one protocol, in one command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.collect.options import PlanOptions, StopOptions, TrialOptions
from parlai_ext.commands.command import ModelCommand
from parlai_ext.commands.options import CHECK, PLAN, RANKING, REQUIRE, SCORER
from parlai_ext.core.errors import UserError, printable
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import flag_values
from parlai_ext.engines.open_engine import EngineOptions, open_engine

if TYPE_CHECKING:
    from parlai_ext.collect.forecast import Forecast
    from parlai_ext.collect.plan import Plan
    from parlai_ext.collect.trials import DryRun
    from parlai_ext.results.ranking import Ranking
    from parlai_ext.scoring.base import Scorer
    from parlai_ext.store import RunFolder


@dataclass(frozen=True)
class ScoredRun:
    """
    A run whose dialogues are collected and scored, and which could not be collected.
    """

    run: RunFolder
    plan: Plan
    scorer: Scorer
    signature: str
    problems: Sequence[str]


class EvaluateSystems(ModelCommand):
    """
    Let systems talk, score what they say, rank them, write the page.

    The same command again goes on where it stopped; with targets added it extends the
    run; with anything else changed it refuses and names the keys.
    """

    usage = '--config NAME|FILE --run-dir FOLDER [option …]'
    declares = (
        *(*PLAN, SCORER, CHECK, *RANKING, REQUIRE, StopOptions),
        *(TrialOptions, Machine, EngineOptions),
    )

    def run(self) -> Ranking | DryRun | Forecast:
        """
        Return the ranking; for a dry run a `DryRun`, for a pilot a `Forecast`.
        """
        from parlai_ext.collect.forecast import forecast_comparison_lines
        from parlai_ext.collect.not_run import stop_if_incomplete
        from parlai_ext.collect.trials import try_before_run
        from parlai_ext.core.ranking_options import RankingOptions
        from parlai_ext.files.human_scores import read_human_scores
        from parlai_ext.judge_check.check_run import check_run
        from parlai_ext.judge_check.options import require_passed
        from parlai_ext.report import write as report
        from parlai_ext.report.audit_doubt import audit_doubts
        from parlai_ext.report.table import terminal_report
        from parlai_ext.results.rank import rank_run
        from parlai_ext.results.ranking import write_ranking

        opt, machine = self.opt, self.machine
        options = PlanOptions.from_options(opt)
        human = read_human_scores(opt['human_scores']) if opt['human_scores'] else ()
        stop = self.options(StopOptions)
        trials = self.options(TrialOptions)
        result = try_before_run(trials, options, machine, judge=True)
        if result is not None:
            return result
        if stop.stop:
            scored = self._score_until_settled(options, machine, stop)
        else:
            scored = self._collect_and_score(options, machine)
        run, problems = scored.run, scored.problems
        with run.lock():
            check_run(run, scored.scorer, sample=opt['check_sample'])
            rules = flag_values(RankingOptions, opt)
            ranking = rank_run(run, scored.signature, human=human, **rules)
            write_ranking(run, ranking)
            page = report.write_report(run, ranking)
        for line in (*scored.plan.left_out, *problems):
            print(printable(f'left out: {line}'))
        print(terminal_report(ranking, audit_doubts(run, ranking)))
        for line in forecast_comparison_lines(run):
            print(line)
        print(f'report: {Path(page).resolve()}')
        stop_if_incomplete(run, problems)
        if opt['require_judge_check']:
            require_passed(ranking.leading_check)
        return ranking

    def _collect_and_score(self, options: PlanOptions, machine: Machine) -> ScoredRun:
        """
        Collect and score what the run lacks.
        """
        from parlai_ext.collect.collect import collect
        from parlai_ext.collect.forecast import timed
        from parlai_ext.collect.plan import prepare
        from parlai_ext.isolation.own_records import is_own_scorer
        from parlai_ext.scoring.score_run import build_scorer, score_run

        run, plan = prepare(options, machine)
        spent: dict[str, Any] = {}
        where = self.options(EngineOptions)
        with run.lock(), open_engine(where, run.root, machine) as engine:
            with timed(run, 'collect', spent):
                collected = collect(
                    *(run, machine),
                    spent=spent,
                    engine=engine,
                    skip_missing=options.skip_missing,
                )
            problems = collected.problems
            if problems and not run.dialogue_shards():
                raise UserError(f'nothing could be collected: {problems[0]}')
            config = run.manifest['protocol']['scorer']
            named = is_own_scorer(run.manifest)
            with timed(run, 'score'):
                scorer = build_scorer(config, machine, named_by_user=named)
                scored = score_run(
                    *(run, scorer),
                    config=config,
                    engine=engine,
                    machine=machine,
                    named_by_user=named,
                )
        return ScoredRun(run, plan, scorer, scored.signature, problems)

    def _score_until_settled(
        self, options: PlanOptions, machine: Machine, stop: StopOptions
    ) -> ScoredRun:
        """
        Collect and score block after block of openers, until every pair of targets is
        settled or the planned number of openers is reached.

        Each block makes the run grow; so after each the run is whole, and where it goes
        on depends on what it holds.
        """
        from parlai_ext.collect.plan import plan_to_try
        from parlai_ext.core.ranking_options import RankingOptions
        from parlai_ext.report.stopping import look_line
        from parlai_ext.results.rank import read_run_scores
        from parlai_ext.results.stopping import look_at_scores, write_stopping
        from parlai_ext.store import RunFolder

        margin = require_stop_options(stop, options)
        planned = len(plan_to_try(options, machine).openers)
        before = RunFolder.existing_or_none(options.run_dir)
        n_openers = len(before.openers) if before else min(stop.block_openers, planned)
        while True:
            now = options.with_num_dialogues(n_openers)
            scored = self._collect_and_score(now, machine)
            run = scored.run
            rules = flag_values(RankingOptions, self.opt)
            scores = read_run_scores(run, scored.signature, rules)
            with run.lock():
                stopping = look_at_scores(
                    run,
                    scores.tables,
                    scores.ranked,
                    scored.signature,
                    margin=margin,
                    planned=planned,
                    dimension=stop.stop_dimension,
                )
                write_stopping(run, stopping)
            print(look_line(stopping), flush=True)
            if stopping.is_final or scored.problems:
                return scored
            n_openers = min(n_openers + stop.block_openers, planned)


def require_stop_options(stop: StopOptions, options: PlanOptions) -> float:
    """
    Return the margin of ``--stop``; refuse what it cannot work with.

    :raises UserError: names the option that is missing, or the rule that does not fit.
    """
    from parlai_ext.collect.plan import protocol_of_options
    from parlai_ext.core.ranking_options import ranking_options

    if not options.config:
        raise UserError(
            '--stop needs --config: further openers are drawn as the protocol says'
        )
    if stop.margin is None:
        raise UserError(
            '--stop needs --margin M: the difference of mean scores up to which two '
            'systems count as tied'
        )
    protocol = protocol_of_options(options)
    if len(protocol.roster.targets) < 2:
        raise UserError('--stop needs two targets at least, which it tells apart')
    if ranking_options(protocol.ranking).is_tournament:
        raise UserError(
            '--stop: a tournament has no mean scores to watch; leave --stop out'
        )
    return stop.margin
