"""
A tournament's rating as one more dimension of `ranking.json`, beside the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from parlai_ext.core.floors import is_floor
from parlai_ext.ranking.agreement import agreement_data, correlate_with_ranks
from parlai_ext.ranking.baselines import HIGHER_IS_BETTER
from parlai_ext.ranking.ratings import NORMAL_BOUND
from parlai_ext.ranking.table import plain
from parlai_ext.results.tables import Tables
from parlai_ext.results.tournament import Crown, Values, claimed_ranks


def rows(found: Crown | None, tables: Tables, takes_part: np.ndarray) -> dict[str, Any]:
    """
    Return the rating as one more dimension of `ranking.json`, by its name.

    The interval is 1.96 standard deviations to each side, where the rating knows them;
    the ranks left open are those that such differences leave open.
    """
    if found is None:
        return {}
    one = found.chosen
    there = {
        name: one['values'][name]
        for name, part in zip(tables.systems, takes_part.tolist(), strict=True)
        if part and one['values'].get(name) is not None
    }
    games = {name: _with_result(found, name) for name in tables.systems}
    return {
        found.name: [
            _row(name, one, there, tables.n_dialogues[name], games[name])
            for name in tables.systems
        ]
    }


def _row(
    name: str, one: Mapping[str, Any], there: Values, n_dialogues: int, played: int
) -> dict[str, Any]:
    value, spreads = one['values'].get(name), one['spreads']
    places: list[int | None] = [None] * 3
    if name in there:
        above = sum(other > there[name] for other in there.values())
        open_ = _open_ranks(name, there, spreads)
        places = [1 + above, *(open_ or (1 + above, 1 + above))]
    limits: list[float | None] = [None, None]
    if value is not None and name in spreads:
        limits = [
            plain(value + sign * NORMAL_BOUND * spreads[name]) for sign in (-1, 1)
        ]
    row = {
        'system': name,
        **dict(zip(('rank', 'rank_low', 'rank_high'), places, strict=True)),
        'score': value,
        **dict(zip(('low', 'high'), limits, strict=True)),
        **dict(zip(('low_fixed', 'high_fixed'), limits, strict=True)),
        'n_dialogues': n_dialogues,
        'n_unscored': max(0, n_dialogues - played),
    }
    if value is None:
        row['why'] = f'undefined: {one["reason"] or "none of its games has a result"}'
    return row


def _open_ranks(name: str, there: Values, spreads: Values) -> tuple[int, int] | None:
    """
    Return the best and worst rank that the uncertainty of the ratings leaves open.
    """
    if not set(there) <= set(spreads):
        return None
    far = [
        math.copysign(1, value - there[name])
        for other, value in there.items()
        if abs(value - there[name])
        > NORMAL_BOUND * math.hypot(spreads[name], spreads[other])
    ]
    return 1 + far.count(1), len(there) - far.count(-1)


def _with_result(found: Crown, name: str) -> int:
    """
    Return how many games of a system have a result.
    """
    record: Mapping[str, int] = found.data['records'].get(name, {})
    return sum(count for key, count in record.items() if key.startswith('games_'))


def beside(
    agreed: Mapping[str, Any], found: Crown | None, tables: Tables
) -> dict[str, Any]:
    """
    Return the agreements with the reference, the rating's and what trivial baselines
    reach on it among them.
    """
    if found is None or not found.target:
        return dict(agreed)
    baselines = {
        name: {**of, found.name: _agreement(_means(tables, name), found)}
        for name, of in agreed['baseline_reference'].items()
    }
    own = _agreement(found.chosen['values'], found, found.chosen['reason'])
    reference = {found.name: own, **agreed['reference']}
    return {**agreed, 'reference': reference, 'baseline_reference': baselines}


def _means(tables: Tables, name: str) -> dict[str, float | None]:
    """
    Return each system's mean of a trivial baseline, larger is better.
    """
    sign = 1 if HIGHER_IS_BETTER[name] else -1
    found = {}
    for system, values in zip(tables.systems, tables.baselines[name], strict=True):
        there = values[np.isfinite(values)]
        found[system] = sign * float(there.mean()) if there.size else None
    return found


def _agreement(
    values: Mapping[str, float | None], found: Crown, reason: str | None = None
) -> dict[str, Any]:
    """
    Return how well values agree with the reference, in the form of other agreements.
    """
    claimed = {name: value for name, value in values.items() if not is_floor(name)}
    ranks = claimed_ranks(found.target) or {}
    correlations = {
        name: correlate_with_ranks(claimed, ranks, name)
        for name in ('spearman', 'kendall')
    }
    agreed = agreement_data(correlations, kind=found.kind)
    if correlations['kendall'].value is None:
        return {**agreed, 'reason': reason or agreed['reason']}
    return {**agreed, 'reason': 'no interval: a rating is of the whole tournament'}
