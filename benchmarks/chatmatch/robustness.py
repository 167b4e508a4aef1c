"""
How far a tournament's tau moves without a system, over other judges, over other games.

Games share systems, so drawing games anew understates what other systems would change:
that range is a figure of sensitivity, not an interval. Leaving each system out shows
the other side.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from benchmarks.chatmatch.annotators import correlate_with_annotators, with_range
from parlai_ext.ranking.agreement import (
    AnnotatorRanks,
    Correlation,
    correlate_with_ranks,
    mean_ranks,
)
from parlai_ext.ranking.ratings import rate
from parlai_ext.tournament.games import GameResult, Tournament, sorted_pair

GAME_DRAWS = 200
SEEDS = 50

Ranks = Mapping[str, float | None]


class TauRanges(NamedTuple):
    """
    A rating's tau with people with its range over judges, its range when each system
    is left out, and its ranges over games and over seeds.
    """

    judges: Correlation
    without_range: tuple[float, float] | None
    games: Correlation
    seeds: Correlation


def tau_ranges(
    results: Tournament,
    judges: AnnotatorRanks,
    method: str = 'openskill',
    *,
    seed: int = 0,
    draws: int = GAME_DRAWS,
) -> TauRanges:
    """
    Return a rating's tau with people, with its 95 % range over judges; and its range
    when each system is left out, over games drawn anew (95 %), and over other seeds of
    the shuffled games (all).
    """
    rating = rate(results, method, seed=seed)
    ranks = mean_ranks(judges)
    compared = correlate_with_annotators(rating.values, judges, seed=seed)
    if rating.reason:
        compared = replace(compared, reason=rating.reason)
    games = range_over_games(results, ranks, method, seed=seed, draws=draws)
    seeds = range_over_seeds(results, ranks, method)
    without = range_without_each(results, ranks, method, seed=seed)
    return TauRanges(compared, without, games, seeds)


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


def range_without_each(
    results: Tournament, ranks: Ranks, method: str, *, seed: int = 0
) -> tuple[float, float] | None:
    """
    Return the smallest and the largest tau when one system is left out.
    """
    without = taus_without_each(results, ranks, method, seed=seed).values()
    taus = [one.value for one in without if one.value is not None]
    return (min(taus), max(taus)) if taus else None


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
