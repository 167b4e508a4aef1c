"""
Dialogues become scores: collect and score what a run lacks.
"""

from dataclasses import dataclass

from parlai_ext.collect.collect import collected_run
from parlai_ext.collect.forecast import timed
from parlai_ext.collect.options import PlanOptions
from parlai_ext.core.errors import UserError
from parlai_ext.engines.machine import Machine
from parlai_ext.engines.open_engine import EngineOptions
from parlai_ext.isolation.own_records import is_own_scorer
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.score_run import build_scorer, score_run
from parlai_ext.store import RunFolder


@dataclass(frozen=True)
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
        config = run.plan.protocol.scorer
        named = is_own_scorer(run.manifest)
        with timed(run, 'score'):
            scorer = build_scorer(config, machine, named_by_user=named)
            scored = score_run(
                run,
                scorer,
                config=config,
                engine=collected.engine,
                machine=machine,
                named_by_user=named,
            )
    return ScoredRun(run, scorer, scored.signature, collected.left_out, problems)
