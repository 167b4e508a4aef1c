"""
What a ranking is compared with: people, or an order planted beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parlai_ext.collect.plan import Plan
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import HumanJudgement
from parlai_ext.results.tables import Tables

Reference = Mapping[str, Mapping[str, float] | Sequence[HumanJudgement]]


def reference_of(
    plan: Plan, human: Sequence[HumanJudgement]
) -> tuple[str, dict[str, Any]]:
    """
    Return the kind of the reference and its values or judgements by dimension.
    """
    if not human:
        return plan.protocol.reference_kind or 'human', dict(plan.protocol.reference)
    by_dimension: dict[str, list[HumanJudgement]] = {}
    for judgement in human:
        by_dimension.setdefault(judgement.dimension, []).append(judgement)
    return 'human', dict(by_dimension)


def fitting(
    tables: Tables, reference: Reference, strict: bool
) -> tuple[dict[str, Any], list[str]]:
    """
    Return the reference on dimensions that are scored, and notes on what fits nothing.

    :param strict: a user gave it for this run, so what fits nothing is a mistake.
    :raises UserError: for a dimension without scores, or when no system fits.
    """
    kept, found = {}, []
    for dimension, values in reference.items():
        names = {v if isinstance(v, str) else v.system for v in values}
        strangers = sorted(names - set(tables.systems))
        if dimension not in tables.scores:
            what = f'no scores on dimension {dimension!r}'
            hint = nearest(dimension, tables.scores)
        elif strangers and len(strangers) == len(names):
            what = f'{dimension}: no target {strangers[0]!r}'
            hint = nearest(strangers[0], tables.systems)
        else:
            kept[dimension] = values
            if strangers:
                listed = ', '.join(strangers)
                found.append(f'{dimension}: reference values of no target: {listed}')
            continue
        if strict:
            raise UserError(f'reference: {what}; {hint}')
        found.append(f'reference: {what}')
    return kept, found
