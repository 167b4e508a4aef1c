"""
What makes a dialogue's score: its system, its partner, its opener, or chance.
"""

from __future__ import annotations

import numpy as np

from parlai_ext.audit.audited import Audited
from parlai_ext.audit.record import Finding, PartResult, Row, left_out
from parlai_ext.core.display import percent
from parlai_ext.ranking.separation import fold_games
from parlai_ext.ranking.table import Floats, json_number
from parlai_ext.ranking.variance_shares import VarianceShares, variance_shares

PART = 'variance'
# what the choice of partners and openers could change in a ranking
WITH_SYSTEM = ('system × partner', 'system × opener')


def check_variance(audited: Audited) -> PartResult:
    """
    Return what share of the variance of scores comes from systems, partners, openers
    and their interactions.
    """
    table = _one_game(audited)
    shares = variance_shares(table)
    if shares is None:
        return left_out(
            PART,
            'Shares of variance are left out: there are too few dialogues, or their '
            'scores do not vary.',
        )
    texts = [f'{name} {percent(share)}' for name, share in shares.shares.items()]
    system = shares.shares.get('system', 0.0)
    choice = sum(shares.shares.get(name, 0.0) for name in WITH_SYSTEM)
    text = (
        f'Of the variance of a dialogue’s score, {percent(system)} comes from the '
        f'system, and {percent(choice)} from how it gets on with its partner and '
        f'opener, which a choice of these could change ({", ".join(texts)}; '
        f'{len(audited.systems)} systems{_floors_text(audited, table)}).'
    )
    rows = _rows('all systems', shares)
    if (without := _without_floors(audited, table)) is not None:
        rows += _rows('without floors', without)
    return PartResult((Finding(PART, text, system > choice),), tuple(rows))


def _one_game(audited: Audited) -> Floats:
    """
    Return ``[system, opponent, opener]``, the mean of a pair's games over one opener.
    """
    return np.array(
        [fold_games(one, audited.games_per_opener) for one in audited.values]
    )


def _without_floors(audited: Audited, table: Floats) -> VarianceShares | None:
    if not 2 <= len(audited.honest) < len(audited.systems):
        return None
    return variance_shares(table[audited.honest])


def _floors_text(audited: Audited, table: Floats) -> str:
    shares = _without_floors(audited, table)
    if shares is None:
        return ''
    return f'; the {len(audited.honest)} that are no floors: system ' + percent(
        shares.shares.get('system')
    )


def _rows(case: str, shares: VarianceShares) -> list[Row]:
    rows = []
    for name, share in shares.shares.items():
        component = json_number(shares.components[name])
        rows.append(Row(PART, case, name, 'share', json_number(share)))
        rows.append(Row(PART, case, name, 'component', component))
    return rows
