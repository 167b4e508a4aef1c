"""
Dialogues become scores: collect and score what a run lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.collect.collect import collect
from parlai_ext.collect.forecast import timed
from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import Plan, prepare
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.engines.open_engine import EngineOptions, open_engine
from parlai_ext.isolation.own_records import is_own_scorer
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.score_run import build_scorer, score_run
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


def collect_and_score(
    options: PlanOptions, machine: Machine, where: EngineOptions
) -> ScoredRun:
    """
    Collect and score what the run of these options lacks.

    :raises UserError: when nothing could be collected, with the first reason.
    """
    run, plan = prepare(options, machine)
    spent: dict[str, Any] = {}
    with run.lock(), open_engine(where, run.root, machine) as engine:
        with timed(run, 'collect', spent):
            problems = collect(
                run,
                machine,
                spent=spent,
                engine=engine,
                skip_missing=options.skip_missing,
            ).problems
        if problems and not run.dialogue_shards():
            raise UserError(f'nothing could be collected: {problems[0]}')
        config = run.manifest['protocol']['scorer']
        named = is_own_scorer(run.manifest)
        with timed(run, 'score'):
            scorer = build_scorer(config, machine, named_by_user=named)
            scored = score_run(
                run,
                scorer,
                config=config,
                engine=engine,
                machine=machine,
                named_by_user=named,
            )
    return ScoredRun(run, plan, scorer, scored.signature, problems)
