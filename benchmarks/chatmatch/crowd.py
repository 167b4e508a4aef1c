"""
Win rates from a crowd that says of both sides of a dialogue whether a human spoke.

A side judged human beats one left undecided, and that one a side judged a bot (Deriu et
al. 2020, Spot The Bot). A system's rate is its wins over all votes on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from parlai_ext.ranking.agreement import (
    Correlation,
    correlate_with_ranks,
    kendall,
    with_range,
)
from parlai_ext.ranking.ratings import ranked
from parlai_ext.ranking.table import Floats, settled

DRAWS = 1000


@dataclass(frozen=True)
class Vote:
    """
    One person's word on the two sides of one dialogue; `winner` is `None` for a draw.
    """

    rater: str
    one: str
    other: str
    winner: str | None


def win_rates(votes: Sequence[Vote]) -> dict[str, float | None]:
    """
    Return each system's share of votes won.
    """
    names = _names(votes)
    wins, seen = _counts(votes, names, [''] * len(votes), [''])
    return {name: float(wins[0, i] / seen[0, i]) for i, name in enumerate(names)}


def crowd_tau(
    values: Mapping[str, float | None], votes: Sequence[Vote], *, seed: int = 0
) -> Correlation:
    """
    Return tau-b of values with win rates, and its 95 % range over people drawn anew.
    """
    whole = correlate_with_ranks(values, ranked(win_rates(votes)))
    names = [n for n in _names(votes) if values.get(n) is not None]
    if whole.value is None:
        return whole
    raters = sorted({vote.rater for vote in votes})
    wins, seen = _counts(votes, names, [vote.rater for vote in votes], raters)
    chosen = np.random.default_rng([seed % 2**32, 5]).integers(
        len(raters), size=(DRAWS, len(raters))
    )
    drawn = np.stack([(chosen == i).sum(axis=1) for i in range(len(raters))], axis=1)
    with np.errstate(invalid='ignore'):
        rates = settled((drawn @ wins) / (drawn @ seen))
    rates = rates[~np.isnan(rates).any(axis=1)]
    left = settled(np.array([float(values[name] or 0.0) for name in names]))
    return with_range(whole, kendall(np.broadcast_to(left, rates.shape), rates))


def _names(votes: Sequence[Vote]) -> list[str]:
    return sorted({name for vote in votes for name in (vote.one, vote.other)})


def _counts(
    votes: Sequence[Vote],
    names: Sequence[str],
    units: Sequence[str],
    order: Sequence[str],
) -> tuple[Floats, Floats]:
    """
    Return ``[unit, system]``: votes won, and votes there are.
    """
    row = {unit: i for i, unit in enumerate(order)}
    column = {name: i for i, name in enumerate(names)}
    wins, seen = (np.zeros((len(order), len(names))) for _ in range(2))
    for vote, unit in zip(votes, units, strict=True):
        for name in (vote.one, vote.other):
            if name in column:
                seen[row[unit], column[name]] += 1
                wins[row[unit], column[name]] += name == vote.winner
    return wins, seen
