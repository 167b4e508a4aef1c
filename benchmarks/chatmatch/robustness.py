"""
How far a tournament's tau moves without a system, over other judges, over other games.

Games share systems, so drawing games anew understates what other systems would change:
that range is a figure of sensitivity, not an interval. Leaving each system out shows
the other side.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.chatmatch.annotators import correlate_with_annotators, with_range
from parlai_ext.ranking.agreement import (
    AnnotatorRanks,
    Correlation,
    correlate_with_ranks,
    mean_ranks,
)
from parlai_ext.ranking.ratings import Rating, rate
from parlai_ext.tournament.games import GameResult, Tournament, sorted_pair

GAME_DRAWS = 200
SEEDS = 50

Ranks = Mapping[str, float | None]


@dataclass(frozen=True)
class TauRanges:
    """
    A rating's tau with people, and its range when something else changes.

    `judges`: tau with its 95 % range over judges; `without`: system -> tau of the
    tournament without it; `games`: 95 % range over games drawn within each pair;
    `seeds`: smallest and largest tau over other seeds of the shuffled games.
    """

    rating: Rating
    judges: Correlation
    without: Mapping[str, Correlation]
    games: Correlation
    seeds: Correlation

    @property
    def without_range(self) -> tuple[float, float] | None:
        """
        The smallest and the largest tau when one system is left out.
        """
        taus = [one.value for one in self.without.values() if one.value is not None]
        return (min(taus), max(taus)) if taus else None


def tau_ranges(
    results: Tournament,
    judges: AnnotatorRanks,
    method: str = 'openskill',
    *,
    seed: int = 0,
    draws: int = GAME_DRAWS,
) -> TauRanges:
    """
    Rate a tournament, compare with people, and vary systems, judges, games and seeds.
    """
    rating = rate(results, method, seed=seed)
    ranks = mean_ranks(judges)
    compared = correlate_with_annotators(rating.values, judges, seed=seed)
    if rating.reason:
        compared = replace(compared, reason=rating.reason)
    return TauRanges(
        rating,
        compared,
        taus_without_each(results, ranks, method, seed=seed),
        range_over_games(results, ranks, method, seed=seed, draws=draws),
        range_over_seeds(results, ranks, method),
    )


def rated_tau(
    results: Tournament, ranks: Ranks, method: str, *, seed: int = 0
) -> Correlation:
    """
    Return the tau of one rating of a tournament, with the reason if it has no rating.
    """
    rating = rate(results, method, seed=seed)
    agreement = correlate_with_ranks(rating.values, ranks)
    return replace(agreement, reason=rating.reason) if rating.reason else agreement


def games_among(results: Tournament, systems: tuple[str, ...]) -> Tournament:
    """
    Return the tournament of these systems alone.
    """
    games = tuple(
        r
        for r in results.results
        if r.game.first in systems and r.game.second in systems
    )
    return Tournament(tuple(sorted(systems)), results.dimensions, games)


def taus_without_each(
    results: Tournament, ranks: Ranks, method: str, *, seed: int = 0
) -> dict[str, Correlation]:
    """
    Return, for each system, the tau of the tournament without it.
    """
    taus = {}
    for name in results.systems:
        others = tuple(one for one in results.systems if one != name)
        taus[name] = rated_tau(games_among(results, others), ranks, method, seed=seed)
    return taus


def range_over_games(
    results: Tournament,
    ranks: Ranks,
    method: str,
    *,
    seed: int = 0,
    draws: int = GAME_DRAWS,
) -> Correlation:
    """
    Return tau with its 95 % range over games drawn anew within each pair.
    """
    games_by_pair: dict[tuple[str, str], list[GameResult]] = defaultdict(list)
    for result in results.compared_games:
        games_by_pair[sorted_pair(result.game)].append(result)
    rng = np.random.default_rng([seed % 2**32, 4])
    taus = []
    for _ in range(draws):
        chosen: list[GameResult] = []
        for _, games in sorted(games_by_pair.items()):
            chosen += [games[i] for i in rng.integers(len(games), size=len(games))]
        drawn = Tournament(results.systems, results.dimensions, tuple(chosen))
        taus.append(rated_tau(drawn, ranks, method, seed=seed).value)
    whole = rated_tau(results, ranks, method, seed=seed)
    return with_range(whole, np.array(taus, dtype=np.float64))


def range_over_seeds(
    results: Tournament, ranks: Ranks, method: str, *, seeds: int = SEEDS
) -> Correlation:
    """
    Return the tau of seed 0 with the smallest and largest over the first seeds.
    """
    taus = [rated_tau(results, ranks, method, seed=seed) for seed in range(seeds)]
    values = np.array([one.value for one in taus], dtype=np.float64)
    return with_range(taus[0], values, (0.0, 1.0))
