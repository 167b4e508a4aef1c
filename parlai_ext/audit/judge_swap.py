"""
Does an order depend on the judge? Every scorer that has scored the run, and the trivial
measures, rank the same systems.
"""

import numpy as np

from parlai_ext.audit.audited import Audited, first_names, ranks_of
from parlai_ext.audit.record import PartResult, outcome_of
from parlai_ext.core.display import number
from parlai_ext.core.signature import scorer_name
from parlai_ext.ranking.agreement import kendall, spearman
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.intervals import draw_means
from parlai_ext.ranking.newcomers import flipped_pairs
from parlai_ext.ranking.ranks import significantly_better
from parlai_ext.ranking.table import Floats, json_number, system_means
from parlai_ext.results.rank import read_run_scores
from parlai_ext.results.tables import ScoreTables


def check_judge_swap(audited: Audited) -> PartResult:
    """
    Return how the ranking agrees with those of the run's other scorers.
    """
    result = PartResult('judge swap')
    others = other_scorers(audited)
    if not others:
        result.leave_out(
            'Other judges are left out: one scorer only has scored this run; '
            '`parlai score_dialogues --scorer NAME` adds one.'
        )
    for name, values in others.items():
        _compare(audited, name, values, result, is_scorer=True)
    tables = audited.scores.tables
    for name, values in tables.baselines.items():
        sign = 1 if HIGHER_IS_BETTER[name] else -1
        values = _same_cells(audited, tables, values) * sign
        _compare(audited, name.replace('_', ' '), values, result, is_scorer=False)
    return result


def other_scorers(audited: Audited) -> dict[str, Floats]:
    """
    Return the values of the run's other scorers, each by its overall or first
    dimension, under its name.
    """
    run, judges = audited.run, {}
    for store in run.score_stores():
        signature = store.signature
        if signature == audited.scores.scorer_signature or not any(
            store.has(shard) for shard in run.dialogue_shards()
        ):
            continue  # its own, or begun, and nothing is scored
        tables = read_run_scores(run, signature, {}).tables
        dimension = min(tables.scores, key=lambda d: d.casefold() != 'overall')
        name = f'{scorer_name(signature)} {store.root.name[:6]} on {dimension}'
        judges[name] = _same_cells(audited, tables, tables.scores[dimension])
    return judges


def _same_cells(audited: Audited, tables: ScoreTables, values: Floats) -> Floats:
    rows = [tables.systems.index(name) for name in audited.systems]
    columns = [tables.opponents.index(name) for name in audited.opponents]
    return values[rows][:, columns]


def _compare(
    audited: Audited, name: str, values: Floats, result: PartResult, is_scorer: bool
) -> None:
    """
    Add the rank correlations with another judge, and the pairs that flip: of a scorer
    a finding, too.

    :param values: of the judge; larger ones are better.
    """
    theirs = system_means(values)
    known = ~np.isnan(theirs)
    mine, swapped = audited.means[known], theirs[known]
    tau, rho = (
        json_number(float(coefficient(mine[None], swapped[None])[0]))
        for coefficient in (kendall, spearman)
    )
    places = np.flatnonzero(known)
    flips = [(int(places[i]), int(places[j])) for i, j in flipped_pairs(mine, swapped)]
    draws = draw_means(
        values, audited.bootstraps, audited.seed, audited.games_per_opener
    )
    better = significantly_better(draws, partners=audited.options.partners)
    disputed = [(i, j) for i, j in flips if audited.better[i, j] and better[j, i]]
    result.add(name, '', 'Kendall tau-b', tau)
    result.add(name, '', 'Spearman rho', rho)
    for k, rank in enumerate(ranks_of(theirs)):
        if known[k]:
            result.add(name, audited.systems[k], 'rank', rank)
    for pair in flips:
        case = f'{name}: {audited.pair_name(pair, "over")}'
        result.add(case, '', 'flips beyond chance', float(pair in disputed))
    if not is_scorer:
        return
    n_pairs = len(mine) * (len(mine) - 1) // 2
    n_alike = int((audited.better & better).sum())
    named = first_names([audited.pair_name(pair, 'over') for pair in disputed])
    text = (
        f'{name} ranks the systems with Kendall {number(tau)} and Spearman '
        f'{number(rho)} to this ranking; {len(flips)} of {n_pairs} pairs flip, '
        f'{len(disputed)} of which both judges tell apart'
        f'{f" (here {named})" if disputed else ""}; '
        f'both tell {n_alike} of {n_pairs} pairs apart in the same order.'
    )
    outcome = outcome_of(
        shown=0 < n_pairs <= 2 * n_alike,
        refuted=bool(disputed) or (tau is not None and tau <= 0),
    )
    result.report(text, outcome)
