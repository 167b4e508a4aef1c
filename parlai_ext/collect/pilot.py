"""
Pilot: a sample of a run is played and scored, to say what the whole will take.

Some dialogues of full length, a few for each system, say how long a reply takes as
dialogues grow; replies in batches as wide as the run's say what width is worth. What
the sample says is not kept: settings may still change after it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from parlai_ext.collect.forecast import n_judged
from parlai_ext.collect.plan import Plan
from parlai_ext.collect.preflight import to_play
from parlai_ext.collect.rates import Sample, Task, Workload, forecast_of
from parlai_ext.collect.sampler import Clock, Sampler
from parlai_ext.collect.timing import peak_bytes
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Dialogue, Pairing
from parlai_ext.scoring.score_run import build_scorer, score_dialogues


def pilot(
    plan: Plan,
    opt: Mapping[str, Any],
    *,
    judge: bool = True,
    clock: Clock = time.perf_counter,
    progress: bool = True,
) -> dict[str, Any]:
    """
    Measure a sample of what the run has to do and return its forecast.

    :param judge: build the protocol's scorer too, and score the sample.
    :raises UserError: when nothing is left to do, or nothing could be measured.
    """
    start = clock()
    sampler = Sampler(plan, opt, clock)
    work = to_play(sampler.stage, opt.get('run_dir'))
    if not work:
        raise UserError(f'--pilot: all dialogues of {opt["run_dir"]} are there already')
    n_missing = sum(shard.n_dialogues for missing in work.values() for shard in missing)
    workload, _ = sampler.simulated(work, {})
    pairs = covering(plan.pairings, {s.pairing_id for b in work for s in b.shards})
    dialogues = sampler.sample(pairs, workload, n_missing, progress)
    found = sampler.measured()
    if not found or not dialogues:
        why = next(iter(sampler.cast.problems.values()), 'no dialogue could be played')
        raise UserError(f'--pilot: nothing could be measured: {why}')
    sampler.cast.clear()
    paces = _judge(plan, opt, dialogues, clock) if judge else None
    workload, loads = sampler.simulated(work, {n: m.n_bytes for n, m in found.items()})
    sample = Sample(
        *(found, sampler.step_seconds, paces, len(dialogues), clock() - start),
        *peak_bytes(),
        sampler.paid,
        tuple(sampler.cast.problems.values()),
    )
    return forecast_of(task_of(plan, n_missing, workload, loads), sample)


def task_of(
    plan: Plan, n_missing: int, workload: Workload, loads: Mapping[str, int]
) -> Task:
    """
    Return what the run has to do; of a run that goes on, what is not collected yet.
    """
    judged = [n_judged(plan.protocol, len(one.utterances)) for one in plan.openers]
    each = sum(judged) / len(judged)
    return Task(
        protocol=plan.protocol.name,
        n_dialogues=n_missing,
        n_utterances=n_missing * plan.protocol.num_turns,
        n_judged=round(n_missing * each),
        n_to_score=n_missing,
        workload=workload,
        loads=loads,
    )


def covering(pairings: Sequence[Pairing], ids: Iterable[str]) -> list[Pairing]:
    """
    Return few of the pairings ``ids`` that have every system of them at least once.
    """
    wanted = set(ids)
    left = [pairing for pairing in pairings if pairing.id in wanted]
    unseen = {name for pair in left for name in (pair.first, pair.second)}
    found = []
    while unseen:
        best = max(left, key=lambda pair: len(unseen & {pair.first, pair.second}))
        found.append(best)
        unseen -= {best.first, best.second}
    return found


def _judge(
    plan: Plan, opt: Mapping[str, Any], dialogues: Sequence[Dialogue], clock: Clock
) -> tuple[float, float]:
    """
    Return the seconds that it takes to load the judge, and to judge an utterance.
    """
    start = clock()
    machine, named = Machine.from_options(opt), bool(opt.get('config'))
    scorer = build_scorer(plan.protocol.scorer, machine, named_by_user=named)
    first_only = plan.protocol.score != 'both'
    load = clock() - start
    start, judged = clock(), 0
    for i in range(0, len(dialogues), plan.shard_size):
        scored = score_dialogues(dialogues[i : i + plan.shard_size], scorer, first_only)
        judged += len(
            {(s.dialogue_id, s.utterance_index) for one in scored for s in one.scores}
        )
    return load, (clock() - start) / judged if judged else 0.0
