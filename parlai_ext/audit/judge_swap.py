"""
Does an order depend on the judge? Every scorer that has scored the run, and the trivial
measures, rank the same systems.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parlai_ext.audit.audited import Audited, ranks_of
from parlai_ext.audit.record import (
    Finding,
    PartResult,
    Row,
    left_out,
    outcome_of,
)
from parlai_ext.core.display import join_names, number
from parlai_ext.ranking.agreement import kendall, spearman
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.intervals import draw_means
from parlai_ext.ranking.newcomers import flipped_pairs
from parlai_ext.ranking.ranks import significantly_better
from parlai_ext.ranking.table import Floats, json_number, system_means
from parlai_ext.results.rank import read_run_scores
from parlai_ext.results.tables import ScoreTables
from parlai_ext.store import RunFolder
from parlai_ext.store.folder import read_signature

PART = 'judge swap'
LISTED = 3  # pairs that are named


@dataclass(frozen=True)
class OtherJudge:
    """
    Another way to rank the run's systems; larger values are better.
    """

    name: str
    values: Floats


def check_judge_swap(audited: Audited) -> PartResult:
    """
    Return how the ranking agrees with those of the run's other scorers.
    """
    others = other_scorers(audited)
    results = [_compare(audited, other, True) for other in others]
    if not others:
        results.append(
            left_out(
                PART,
                'Other judges are left out: one scorer only has scored this run; '
                '`parlai score_dialogues --scorer NAME` adds one.',
            )
        )
    results += [_compare(audited, other, False) for other in trivial_judges(audited)]
    return PartResult(
        tuple(f for result in results for f in result.findings),
        tuple(row for result in results for row in result.rows),
    )


def other_scorers(audited: Audited) -> list[OtherJudge]:
    """
    Return the run's other scorers, each by its overall or first dimension.
    """
    own = audited.run.scores(audited.scores.scorer_signature).root.name
    judges = []
    for signature in stored_signatures(audited.run):
        folder = audited.run.scores(signature).root.name
        if folder == own:
            continue
        store = audited.run.scores(signature)
        shards = audited.run.dialogue_shards()
        if not any(store.has(shard.pairing_id, shard.index) for shard in shards):
            continue  # begun, and nothing is scored
        tables = read_run_scores(audited.run, signature, {}).tables
        dimension = sorted(tables.scores, key=lambda d: d.casefold() != 'overall')[0]
        name = signature.partition('|')[0].removeprefix('scorer:')
        values = _same_cells(audited, tables, tables.scores[dimension])
        judges.append(OtherJudge(f'{name} {folder[:6]} on {dimension}', values))
    return judges


def stored_signatures(run: RunFolder) -> list[str]:
    """
    Return the signatures of all scores of a run.
    """
    files = sorted((run.root / 'scores').glob('*/signature.txt'))
    return [read_signature(file) for file in files]


def trivial_judges(audited: Audited) -> list[OtherJudge]:
    """
    Return the trivial measures as judges.
    """
    tables = audited.scores.tables
    return [
        OtherJudge(
            name.replace('_', ' '),
            _same_cells(audited, tables, values)
            * (1 if HIGHER_IS_BETTER[name] else -1),
        )
        for name, values in tables.baselines.items()
    ]


def _same_cells(audited: Audited, tables: ScoreTables, values: Floats) -> Floats:
    rows = [tables.systems.index(name) for name in audited.systems]
    columns = [tables.opponents.index(name) for name in audited.opponents]
    return values[rows][:, columns]


def _compare(audited: Audited, other: OtherJudge, is_scorer: bool) -> PartResult:
    """
    Return the rank correlations with another judge, and the pairs that flip: for a
    scorer a finding, for a trivial measure rows only.
    """
    theirs = system_means(other.values)
    known = ~np.isnan(theirs)
    mine, swapped = audited.means[known], theirs[known]
    tau, rho = (
        json_number(float(coefficient(mine[None], swapped[None])[0]))
        for coefficient in (kendall, spearman)
    )
    places = np.flatnonzero(known)
    flips = [(int(places[i]), int(places[j])) for i, j in flipped_pairs(mine, swapped)]
    draws = draw_means(
        other.values, audited.bootstraps, audited.seed, audited.games_per_opener
    )
    better = significantly_better(draws, partners=audited.options.partners)
    disputed = [(i, j) for i, j in flips if audited.better[i, j] and better[j, i]]
    rows = [
        Row(PART, other.name, '', 'Kendall tau-b', tau),
        Row(PART, other.name, '', 'Spearman rho', rho),
    ]
    for k, rank in enumerate(ranks_of(theirs)):
        if known[k]:
            rows.append(Row(PART, other.name, audited.systems[k], 'rank', rank))
    for i, j in flips:
        pair = f'{audited.systems[i]} over {audited.systems[j]}'
        sure = float((i, j) in disputed)
        rows.append(Row(PART, f'{other.name}: {pair}', '', 'flips beyond chance', sure))
    if not is_scorer:
        return PartResult((), tuple(rows))
    n_pairs = len(mine) * (len(mine) - 1) // 2
    n_alike = int((audited.better & better).sum())
    text = (
        f'{other.name} ranks the systems with Kendall {number(tau)} and Spearman '
        f'{number(rho)} to this ranking; {len(flips)} of {n_pairs} pairs flip, '
        f'{len(disputed)} of which both judges tell apart{_named(audited, disputed)}; '
        f'both tell {n_alike} of {n_pairs} pairs apart in the same order.'
    )
    outcome = outcome_of(
        shown=0 < n_pairs <= 2 * n_alike,
        refuted=bool(disputed) or (tau is not None and tau <= 0),
    )
    return PartResult((Finding(PART, text, outcome),), tuple(rows))


def _named(audited: Audited, pairs: list[tuple[int, int]]) -> str:
    if not pairs:
        return ''
    names = [f'{audited.systems[i]} over {audited.systems[j]}' for i, j in pairs]
    more = [f'{len(names) - LISTED} more'] if len(names) > LISTED else []
    return f' (here {join_names([*names[:LISTED], *more])})'
