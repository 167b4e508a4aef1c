"""
Dialogues become scores: what a run lacks is collected and scored, at once or, where it
stops when it is settled, block after block of openers.
"""

from parlai_ext.collect.collect import collected_run
from parlai_ext.collect.forecast import timed
from parlai_ext.collect.options import StopOptions
from parlai_ext.collect.plan import RequestedProtocol, plan_to_try
from parlai_ext.core import JsonObject, UserError, frozen
from parlai_ext.engines import EngineOptions, Machine
from parlai_ext.isolation.policy import is_own_scorer
from parlai_ext.results.ranking import read_run_scores
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.score_run import ChosenScorer, score_run
from parlai_ext.stopping.looks import look_at_scores, print_look, write_stopping
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
    requested: RequestedProtocol, machine: Machine, where: EngineOptions
) -> ScoredRun:
    """
    Collect and score what the requested run lacks.

    :raises UserError: when nothing could be collected, with the first reason.
    """
    with collected_run(requested, machine, where) as collected:
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
    requested: RequestedProtocol,
    machine: Machine,
    where: EngineOptions,
    stop: StopOptions,
    rules: JsonObject,
) -> ScoredRun:
    """
    Collect and score all that the requested run lacks; with ``--stop``, block after
    block of openers, until every pair of targets is settled or the planned number of
    openers is reached. Each look at the scores is printed.

    Each block makes the run grow; so after each the run is whole, and where it goes
    on depends on what it holds.

    :param stop: as `require_stop_options` accepts it.
    :param rules: options of the ranking that replace those of the protocol.
    """
    if stop.margin is None:
        return collect_and_score(requested, machine, where)
    planned, run = len(plan_to_try(requested, machine).openers), requested.run
    n_openers = len(run.openers) if run else min(stop.block_openers, planned)
    while True:
        scored = collect_and_score(requested.over(n_openers, run), machine, where)
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
