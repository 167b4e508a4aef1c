"""
A bench: scorers by judged sets, scored, correlated with people, and written.

It may have rows for several scorers together: the mean of their ranks on each set. In
a bench file, under ``mean_ranks``, each has a label and its members:

    mean_ranks:
      composite and FED: [composite, 'FED, complaints']
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from parlai_ext.bench.bench_files import (
    Bench,
    SetAbout,
    agreement_rows,
    set_points,
    write_bench,
)
from parlai_ext.bench.plan import (
    MEAN_RANK,
    BenchPlan,
    ScorerAbout,
    Variant,
    drawn_set,
    without_outliers,
)
from parlai_ext.bench.score_sets import (
    ScorerResult,
    SetScores,
    score_sets,
)
from parlai_ext.data.judged.judged_set import JudgedSet
from parlai_ext.data.judged.qualities import OVERALL, main_dimension, main_score
from parlai_ext.engines.engine import Engine
from parlai_ext.engines.local import LOCAL
from parlai_ext.engines.machine import Machine
from parlai_ext.ranking.agreement import BOOTSTRAPS
from parlai_ext.ranking.comparison import mean_rank_scores

DIMENSION = OVERALL.capitalize()
NOT_RANKED = 'a member of the mean rank has no score for it'


def run_bench(
    plan: BenchPlan,
    sets: Mapping[str, JudgedSet],
    folder: Path,
    *,
    missing: Mapping[str, str] | None = None,
    bootstraps: int = BOOTSTRAPS,
    seed: int = 0,
    outlier_deviations: float | None = None,
    machine: Machine | None = None,
    engine: Engine = LOCAL,
) -> tuple[Bench, list[ScorerResult]]:
    """
    Run a bench and write its files; the same call again does what is missing.

    :param sets: the judged sets by name.
    :param missing: why a set that was asked for is not there, by its name.
    :param bootstraps: resamples behind each interval.
    :param seed: of the items that are drawn, and of the resamples.
    :param outlier_deviations: annotations farther than that from the median of their
        item are left out (`near_median`); `None`: none are.
    :param engine: where items are scored.
    :return: the bench, and the scores behind it.
    """
    plan = plan.with_trivial_scorers()
    given = {name: one.counts()['annotations'] for name, one in sets.items()}
    if outlier_deviations is not None:
        sets = {
            name: without_outliers(one, outlier_deviations)
            for name, one in sets.items()
        }
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
        engine=engine,
    )
    results += mean_rank_results(plan.mean_ranks, results, drawn)
    bench = Bench(
        tuple(result.about for result in results),
        tuple(
            SetAbout.from_set(sets[name], one, plan.choice(name).turns, given[name])
            for name, one in drawn.items()
        ),
        tuple(agreement_rows(results, drawn, bootstraps=bootstraps, seed=seed)),
        seed,
        bootstraps,
        plan.description,
        dict(missing or {}),
        {one.about.label: one.of_sets('reasons') for one in results},
        plan.published,
        {one.about.label: one.of_sets('flips') for one in results},
    )
    write_bench(folder, bench, [set_points(one, results) for one in drawn.values()])
    return bench, results


# ----------------------------------------------------------------- the means of ranks


def mean_rank_results(
    mean_ranks: Mapping[str, Sequence[str]],
    results: Sequence[ScorerResult],
    sets: Mapping[str, JudgedSet],
) -> Iterator[ScorerResult]:
    """
    Yield the mean ranks of several scorers as results like those of scorers. A rank
    needs all items of a set, so that this is made of a bench's scores and is no scorer.

    :param mean_ranks: by label, the labels of the members.
    :param results: of the scorers; a mean rank with a member that is not among them is
        left out.
    :param sets: the judged sets by name, with the items that were scored.
    """
    by_label = {result.about.label: result for result in results}
    for label, names in mean_ranks.items():
        if not all(name in by_label for name in names):
            continue
        members = [by_label[name] for name in names]
        signatures = [member.about.signature for member in members]
        whole = [f'({one})' for one in signatures if one is not None]
        fitted = {name: None for member in members for name in member.about.fitted_on}
        yield ScorerResult(
            Variant(label, {'name': MEAN_RANK, 'of': list(names)}),
            ScorerAbout(
                label,
                MEAN_RANK,
                '|'.join([MEAN_RANK, *whole]) if None not in signatures else None,
                members[0].about.level,
                (DIMENSION,),
                fitted_on=tuple(fitted),
            ),
            sets={name: _mean_ranks(members, one) for name, one in sets.items()},
        )


def _mean_ranks(
    members: Sequence[ScorerResult], judged_set: JudgedSet
) -> SetScores | str:
    """
    Return the mean ranks of a set's items, or why there are none.
    """
    table = []
    for member in members:
        scores = member.sets.get(judged_set.name, 'it was not scored')
        if isinstance(scores, str):
            return f'{member.about.label}: {scores}'
        main = main_dimension(member.about.dimensions, judged_set)
        values = [main_score(one, main) for one in scores.values]
        table.append([np.nan if value is None else value for value in values])
    means = mean_rank_scores(np.array(table).reshape(len(members), -1))
    known = [float(mean) if np.isfinite(mean) else None for mean in means]
    missing = known.count(None)
    reasons = {NOT_RANKED: missing} if missing else {}
    return SetScores([{DIMENSION: value} for value in known], reasons)
