"""
Dialogues become scores: what a run lacks is collected and scored, at once or, where it
stops when it is settled, block after block of openers.
"""

from dataclasses import replace

from parlai_ext.collect.collect import collected_run
from parlai_ext.collect.forecast import timed
from parlai_ext.collect.options import PlanOptions, StopOptions
from parlai_ext.collect.plan import plan_to_try
from parlai_ext.core import JsonObject, UserError, frozen
from parlai_ext.engines import EngineOptions, Machine
from parlai_ext.isolation.policy import is_own_scorer
from parlai_ext.results.rank import read_run_scores
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.score_run import ChosenScorer, score_run
from parlai_ext.stopping.looks import look_at_scores, write_stopping
from parlai_ext.stopping.section import print_look
from parlai_ext.store import RunFolder


@frozen
class ScoredRun:
    """
    A run whose dialogues are collected and scored.

    :param left_out: the systems that are not in it, with the reasons.
    :param problems: why some of them could not be collected.
    """

    run: RunFolder
    scorer: Scorer
    signature: str
    left_out: tuple[str, ...]
    problems: tuple[str, ...]


def collect_and_score(
    options: PlanOptions, machine: Machine, where: EngineOptions
) -> ScoredRun:
    """
    Collect and score what the run of these options lacks.

    :raises UserError: when nothing could be collected, with the first reason.
    """
    with collected_run(options, machine, where) as collected:
        run, problems = collected.run, collected.report.problems
        if problems and not run.dialogue_shards():
            raise UserError(f'nothing could be collected: {problems[0]}')
        chosen = ChosenScorer(
            run.plan.protocol.scorer, named_by_user=is_own_scorer(run.manifest)
        )
        with timed(run, 'score'):
            scorer = chosen.build(machine)
            scored = score_run(
                run, scorer, chosen, engine=collected.engine, machine=machine
            )
    return ScoredRun(run, scorer, scored.signature, collected.left_out, problems)


def collect_until_settled(
    options: PlanOptions,
    machine: Machine,
    where: EngineOptions,
    stop: StopOptions,
    rules: JsonObject,
) -> ScoredRun:
    """
    Collect and score all that the run of these options lacks; with ``--stop``, block
    after block of openers, until every pair of targets is settled or the planned number
    of openers is reached. Each look at the scores is printed.

    Each block makes the run grow; so after each the run is whole, and where it goes
    on depends on what it holds.

    :param stop: as `require_stop_options` accepts it.
    :param rules: options of the ranking that replace those of the protocol.
    """
    if stop.margin is None:
        return collect_and_score(options, machine, where)
    planned = len(plan_to_try(options, machine).openers)
    before = RunFolder.existing_or_none(options.run_dir)
    n_openers = len(before.openers) if before else min(stop.block_openers, planned)
    while True:
        overrides = {**options.overrides, 'num_dialogues': n_openers}
        scored = collect_and_score(
            replace(options, overrides=overrides), machine, where
        )
        run = scored.run
        scores = read_run_scores(run, scored.signature, rules)
        with run.lock():
            stopping = look_at_scores(
                scores,
                margin=stop.margin,
                planned=planned,
                dimension=stop.stop_dimension,
            )
            write_stopping(run, stopping)
        print_look(stopping)
        if stopping.is_final or scored.problems:
            return scored
        n_openers = min(n_openers + stop.block_openers, planned)
