"""
From scores to `ranking.json`: standings, baselines beside them, the reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from parlai_ext.config import CHOICES
from parlai_ext.errors import UserError
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.bounds import unscored_bounds
from parlai_ext.ranking.correlation import with_reference
from parlai_ext.ranking.rank import standings
from parlai_ext.records import HumanJudgement, Standing
from parlai_ext.report.summary import is_floor
from parlai_ext.stages import imported, not_run, tournament, tournament_rows
from parlai_ext.stages.plan import Plan, plan_of_run
from parlai_ext.stages.reference import Reference, fitting, reference_of
from parlai_ext.stages.tables import Tables, read_tables
from parlai_ext.stages.truncation import (
    MAX_TRUNCATED_SHARE,
    truncation,
    truncation_notes,
)
from parlai_ext.store import RunFolder

SCHEMA = 1
BOOTSTRAPS = 2000
MAX_FAILED_SHARE = 0.05
PARTNERS = 'sampled'


def rank_run(
    run: RunFolder,
    scorer_signature: str,
    *,
    rule: Mapping[str, Any] | None = None,
    human: Sequence[HumanJudgement] = (),
    bootstraps: int | None = None,
    max_failed_share: float | None = None,
    max_truncated_share: float | None = None,
) -> dict[str, Any]:
    """
    Rank the targets of a scored run; return what `ranking.json` holds.

    :param rule: keys that replace those of the protocol's ``ranking:`` section.
    :param human: judgements that replace the protocol's own reference.
    :param max_truncated_share: of a system's judged contexts, above which its scores
        are marked as not comparable.
    """
    plan = plan_of_run(run)
    settings = {**plan.protocol.ranking, **(rule or {})}
    if max_failed_share is not None:
        settings['max_failed_share'] = max_failed_share
    if max_truncated_share is not None:
        settings['max_truncated_share'] = max_truncated_share
    tables = read_tables(run, scorer_signature)
    if not tables.scores:
        raise UserError(f'{run.root}: no scores; run `parlai score_dialogues` first')
    ranked = ranked_mask(tables, settings.get('max_failed_share', MAX_FAILED_SHARE))
    partners = settings.get('partners', PARTNERS)
    common: dict[str, Any] = {
        'bootstraps': bootstraps or settings.get('bootstraps', BOOTSTRAPS),
        'seed': plan.protocol.seed,
    }
    rows: dict[str, Any] = {'ranked': ranked, 'partners': partners, **common}
    kind, everything = reference_of(plan, human)
    asked, target = tournament.split(everything, settings)
    played = tournament.crown(
        *(run, plan, tables, scorer_signature, settings), target=target, kind=kind
    )
    reference, misfits = fitting(tables, asked, strict=bool(human))
    most = settings.get('max_truncated_share', MAX_TRUNCATED_SHARE)
    truncated = truncation(tables, most)
    return {
        'schema': SCHEMA,
        'signature': f'{not_run.signature(run)} || {scorer_signature}'
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
    for key, value in given.items():
        if key in CHOICES and value not in CHOICES[key]:
            choices = ', '.join(CHOICES[key])
            raise UserError(f'--{key}: {value!r} is none of {choices}')
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
    tables: Tables, ranked: np.ndarray, reference: Reference, **settings: Any
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
    return {
        'reference': {
            d: with_reference(tables.scores[d][claimed], names, r, **settings)
            for d, r in reference.items()
        },
        'baseline_reference': {
            name: {
                d: with_reference(values, names, r, **settings)
                for d, r in reference.items()
            }
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
