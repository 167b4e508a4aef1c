"""
How far a tournament's tau would move: without a bot, over other judges, other games.

Games share bots, so drawing games anew understates what other bots would change: it is
a figure of sensitivity, not an interval. Leaving each bot out shows the other side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from parlai_ext.ranking.agreement import (
    AnnotatorRanks,
    Correlation,
    correlate_with_annotators,
    correlate_with_ranks,
    mean_ranks,
    with_range,
)
from parlai_ext.ranking.ratings import Rating, rate
from parlai_ext.ranking.tournament import GameResult, Tournament, pair_of

GAME_DRAWS = 200
ORDERS = 50


@dataclass(frozen=True)
class Robust:
    """
    A rating's tau with people, and what it becomes when something else changes.

    `judges`: tau with its 95 % range over judges; `without`: system -> tau of the
    others' tournament; `games`: 95 % range over games drawn within each pair;
    `orders`: smallest and largest tau over other seeds of the shuffles.
    """

    rating: Rating
    judges: Correlation
    without: Mapping[str, Correlation]
    games: Correlation
    orders: Correlation

    @property
    def without_range(self) -> tuple[float, float] | None:
        """
        The smallest and the largest tau when one system is left out.
        """
        there = [one.value for one in self.without.values() if one.value is not None]
        return (min(there), max(there)) if there else None


def robust(
    results: Tournament,
    judges: AnnotatorRanks,
    method: str = 'openskill',
    *,
    seed: int = 0,
    draws: int = GAME_DRAWS,
) -> Robust:
    """
    Rate a tournament, compare with people, and vary bots, judges, games, shuffles.
    """
    rating = rate(results, method, seed=seed)
    ranks = mean_ranks(judges)
    compared = correlate_with_annotators(rating.values, judges, seed=seed)
    if rating.reason:
        compared = replace(compared, reason=rating.reason)
    return Robust(
        rating,
        compared,
        leave_one_out(results, ranks, method, seed=seed),
        games_range(results, ranks, method, seed=seed, draws=draws),
        orders_range(results, ranks, method),
    )


def rated_tau(
    results: Tournament,
    ranks: Mapping[str, float | None],
    method: str,
    *,
    seed: int = 0,
) -> Correlation:
    """
    Return the tau of one rating of one tournament; why there is no rating, if none.
    """
    rating = rate(results, method, seed=seed)
    found = correlate_with_ranks(rating.values, ranks)
    return replace(found, reason=rating.reason) if rating.reason else found


def only(results: Tournament, systems: tuple[str, ...]) -> Tournament:
    """
    Return the tournament of these systems alone.
    """
    kept = tuple(
        r
        for r in results.results
        if r.game.first in systems and r.game.second in systems
    )
    return Tournament(tuple(sorted(systems)), results.dimensions, kept)


def leave_one_out(
    results: Tournament,
    ranks: Mapping[str, float | None],
    method: str,
    *,
    seed: int = 0,
) -> dict[str, Correlation]:
    """
    Return, for each system, the tau of the tournament played without it.
    """
    found = {}
    for name in results.systems:
        others = tuple(one for one in results.systems if one != name)
        found[name] = rated_tau(only(results, others), ranks, method, seed=seed)
    return found


def games_range(
    results: Tournament,
    ranks: Mapping[str, float | None],
    method: str,
    *,
    seed: int = 0,
    draws: int = GAME_DRAWS,
) -> Correlation:
    """
    Return tau with its 95 % range over games drawn anew within each pair.
    """
    of_pairs: dict[tuple[str, str], list[GameResult]] = defaultdict(list)
    for result in results.compared:
        of_pairs[pair_of(result.game)].append(result)
    rng = np.random.default_rng([seed % 2**32, 4])
    taus = []
    for _ in range(draws):
        chosen: list[GameResult] = []
        for _, of in sorted(of_pairs.items()):
            chosen += [of[i] for i in rng.integers(len(of), size=len(of))]
        drawn = Tournament(results.systems, results.dimensions, tuple(chosen))
        taus.append(rated_tau(drawn, ranks, method, seed=seed).value)
    whole = rated_tau(results, ranks, method, seed=seed)
    return with_range(whole, np.array(taus, dtype=np.float64))


def orders_range(
    results: Tournament,
    ranks: Mapping[str, float | None],
    method: str,
    *,
    orders: int = ORDERS,
) -> Correlation:
    """
    Return the tau of seed 0 with the smallest and largest over the first seeds.
    """
    taus = [rated_tau(results, ranks, method, seed=seed) for seed in range(orders)]
    values = np.array([one.value for one in taus], dtype=np.float64)
    return with_range(taus[0], values, (0.0, 1.0))
