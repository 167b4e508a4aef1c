"""
From scores to `ranking.json`: standings, baselines beside them, the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parlai_ext.collect import not_run
from parlai_ext.collect.plan import Plan, plan_of_run
from parlai_ext.core.errors import UserError
from parlai_ext.core.floors import is_floor
from parlai_ext.core.nouns import HumanJudgement, Standing
from parlai_ext.core.options import given_options
from parlai_ext.core.ranking_options import RankingOptions
from parlai_ext.core.signature import PART_SEPARATOR
from parlai_ext.ranking.agreement import agreement_data, correlate_with_reference
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.bounds import unscored_bounds
from parlai_ext.ranking.rank import standings
from parlai_ext.results import tournament, tournament_rows
from parlai_ext.results.reference import Reference, fitting, reference_of
from parlai_ext.results.tables import Tables, read_tables
from parlai_ext.results.truncation import truncation, truncation_notes
from parlai_ext.store import RunFolder, imported

SCHEMA = 1
# what the ``ranking:`` section says where nobody says otherwise
DEFAULTS = {
    'bootstraps': 2000,
    'max_failed_share': 0.05,
    'max_truncated_share': 0.2,
    'partners': 'sampled',
}


def rank_run(
    run: RunFolder,
    scorer_signature: str,
    *,
    human: Sequence[HumanJudgement] = (),
    **replaced: Any,
) -> dict[str, Any]:
    """
    Rank the targets of a scored run; return what `ranking.json` holds.

    :param human: judgements that replace the protocol's own reference.
    :param replaced: keys that replace those of the protocol's ``ranking:`` section,
        unless they are `None`.
    """
    plan = plan_of_run(run)
    settings = {**DEFAULTS, **plan.protocol.ranking}
    settings |= {key: value for key, value in replaced.items() if value is not None}
    tables = read_tables(run, scorer_signature, tournament.asked(settings))
    if not tables.scores:
        raise UserError(f'{run.root}: no scores; run `parlai score_dialogues` first')
    ranked = ranked_mask(tables, settings['max_failed_share'])
    partners, seed = settings['partners'], plan.protocol.seed
    common: dict[str, Any] = {'bootstraps': settings['bootstraps'], 'seed': seed}
    rows: dict[str, Any] = {'ranked': ranked, 'partners': partners, **common}
    kind, everything = reference_of(plan, human)
    asked, target = tournament.split(everything, settings)
    played = tournament.crown(tables, settings, target=target, kind=kind, seed=seed)
    reference, misfits = fitting(tables, asked, strict=bool(human))
    truncated = truncation(tables, settings['max_truncated_share'])
    return {
        'schema': SCHEMA,
        'signature': f'{not_run.signature(run)}{PART_SEPARATOR}{scorer_signature}'
        + tournament.signed(played),
        'protocol': plan.protocol.name,
        'partners': partners,
        'guessed': list(plan.manifest.get('guessed') or ()),
        'dimensions': tournament_rows.rows(played, tables, ranked)
        | all_standings(tables, tables.scores, **rows),
        'baselines': all_standings(
            tables, tables.baselines, higher=HIGHER_IS_BETTER, **rows
        ),
        **tournament_rows.beside(
            agreements(tables, ranked, reference, kind=kind, **common), played, tables
        ),
        **tournament.kept(played),
        'bounds': _bounds(tables),
        'failures': failures(tables, ranked),
        'truncated': truncated,
        'unplayed': not_run.of_targets(run, plan),
        'notes': notes(run, plan, tables) + truncation_notes(truncated) + misfits,
    }


def rule_of(opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the keys of the ``ranking:`` section that options replace; a rating is a
    tournament's.

    :raises UserError: for a value that the section cannot have.
    """
    given = {
        k: opt[k] for k in ('rule', 'rating', 'shuffles') if opt.get(k) is not None
    }
    given_options(RankingOptions, given, '--')
    if given and 'rule' not in given:
        given['rule'] = tournament.RULE
    return given


def ranked_mask(tables: Tables, max_failed_share: float) -> np.ndarray:
    """
    Return which targets are ranked: those that broke off few enough dialogues.
    """

    def share(name: str) -> float:
        failed = sum(tables.failures.get(name, {}).values())
        return failed / max(1, tables.n_played[name])

    return np.array([share(name) <= max_failed_share for name in tables.systems])


def failures(tables: Tables, ranked: np.ndarray) -> dict[str, Any]:
    """
    Return, for each system that broke off a dialogue, how often and why.
    """
    found: dict[str, Any] = {}
    rank = dict(zip(tables.systems, ranked.tolist(), strict=True))
    for name, reasons in sorted(tables.failures.items()):
        failed = sum(reasons.values())
        found[name] = {
            'role': 'target' if name in rank else 'partner',
            'n_dialogues': tables.n_played[name],
            'n_failed': failed,
            'share': failed / tables.n_played[name],
            'ranked': rank.get(name),
            'reasons': dict(sorted(reasons.items())),
        }
    return found


def notes(run: RunFolder, plan: Plan, tables: Tables) -> list[str]:
    """
    Return what a reader of the ranking must be told.
    """
    found = [f'left out: {line}' for line in plan.manifest.get('left_out') or ()]
    found += imported.in_words(plan.manifest)
    found += not_run.in_words(run)
    if guessed := plan.manifest.get('guessed'):
        found.append(f'guessed, which model a paper means: {", ".join(guessed)}')
    if trusted := plan.manifest.get('trusted'):
        found.append(f'model files that might run code: {", ".join(trusted)}')
    if len(tables.opponents) == 1:
        found.append('one partner only: intervals cannot speak for other partners')
    floors = [n for n in tables.systems if is_floor(n)]
    if floors:
        found.append(f'floors, no part of the claim: {", ".join(floors)}')
    return found


def all_standings(
    tables: Tables,
    arrays: Mapping[str, np.ndarray],
    *,
    ranked: np.ndarray,
    higher: Mapping[str, bool] | None = None,
    **settings: Any,
) -> dict[str, list[dict[str, Any]]]:
    """
    Return the rows of `ranking.json` for each of these arrays.
    """
    n_dialogues = [tables.n_dialogues[name] for name in tables.systems]
    return {
        name: [
            row(s)
            for s in standings(
                values,
                tables.systems,
                name,
                ranked=ranked.tolist(),
                n_dialogues=n_dialogues,
                n_unscored=tables.unscored(values),
                higher_is_better=(higher or {}).get(name, True),
                **settings,
            )
        ]
        for name, values in arrays.items()
    }


def row(standing: Standing) -> dict[str, Any]:
    """
    Return a standing as a row of `ranking.json` (its dimension is the key above it).
    """
    return {k: v for k, v in vars(standing).items() if k != 'dimension'}


def agreements(
    tables: Tables,
    ranked: np.ndarray,
    reference: Reference,
    *,
    kind: str,
    **settings: Any,
) -> dict[str, Any]:
    """
    Correlate scores and, beside them, each trivial baseline with the reference.

    Floors are no part of it; a baseline whose lower values are better is turned round,
    as it is in the ranking.
    """
    claimed = ranked & ~np.array([is_floor(name) for name in tables.systems])
    names = [n for n, c in zip(tables.systems, claimed, strict=True) if c]
    turned = {
        name: values[claimed] * (1 if HIGHER_IS_BETTER[name] else -1)
        for name, values in tables.baselines.items()
    }

    def agreement(values: np.ndarray, dimension: str) -> dict[str, Any]:
        correlations = correlate_with_reference(
            values, names, reference[dimension], **settings
        )
        return agreement_data(correlations, kind=kind)

    return {
        'reference': {d: agreement(tables.scores[d][claimed], d) for d in reference},
        'baseline_reference': {
            name: {d: agreement(values, d) for d in reference}
            for name, values in turned.items()
        },
    }


def _bounds(tables: Tables) -> dict[str, dict[str, Any]]:
    """
    Return, by dimension and system, what the unscored dialogues could change.
    """
    return {
        d: {
            b.system: {'unscored_share': b.share, 'worst': b.worst, 'best': b.best}
            for b in unscored_bounds(values, tables.systems, tables.unscored(values))
            if b.share
        }
        for d, values in tables.scores.items()
        if any(tables.unscored(values))
    }
