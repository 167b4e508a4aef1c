"""
A bench: scorers by judged sets, scored, correlated with people, and written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from parlai_ext.bench.agreement_rows import agreement_rows
from parlai_ext.bench.bench_files import (
    Bench,
    ScorerAbout,
    SetAbout,
    set_points,
    write_bench,
)
from parlai_ext.bench.drawn_items import drawn_set
from parlai_ext.bench.mean_ranks import mean_rank_results
from parlai_ext.bench.plan import BenchPlan
from parlai_ext.bench.score_sets import ScorerResult, SetScores, score_sets
from parlai_ext.core.machine import Machine
from parlai_ext.data.judged.judged_set import JudgedSet
from parlai_ext.engines.engine import LOCAL, Engine
from parlai_ext.ranking.agreement import BOOTSTRAPS


def run_bench(
    plan: BenchPlan,
    sets: Mapping[str, JudgedSet],
    folder: Path,
    *,
    missing: Mapping[str, str] | None = None,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
    machine: Machine | None = None,
    progress: bool = True,
    engine: Engine = LOCAL,
) -> tuple[Bench, list[ScorerResult]]:
    """
    Run a bench and write its files; the same call again does what is missing.

    :param sets: the judged sets by name.
    :param missing: why a set that was asked for is not there, by its name.
    :param bootstraps: resamples behind each interval.
    :param seed: of the items that are drawn, and of the resamples.
    :param engine: where items are scored.
    :return: the bench, and the scores behind it.
    """
    plan = plan.with_trivial_scorers()
    drawn = {
        name: drawn_set(one, plan.choice(name).max_items, seed)
        for name, one in sets.items()
    }
    results = score_sets(
        plan,
        drawn,
        folder,
        seed=seed,
        machine=machine,
        progress=progress,
        engine=engine,
    )
    results += mean_rank_results(plan.mean_ranks, results, drawn)
    bench = Bench(
        tuple(ScorerAbout.from_result(result) for result in results),
        tuple(
            SetAbout.from_set(sets[name], one, plan.choice(name).turns)
            for name, one in drawn.items()
        ),
        tuple(agreement_rows(results, drawn, bootstraps=bootstraps, seed=seed)),
        seed,
        bootstraps,
        plan.description,
        dict(missing or {}),
        {
            result.variant.label: {
                name: dict(scores.reasons)
                for name, scores in result.sets.items()
                if isinstance(scores, SetScores) and scores.reasons
            }
            for result in results
        },
    )
    write_bench(folder, bench, [set_points(one, results) for one in drawn.values()])
    return bench, results
