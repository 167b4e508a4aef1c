"""
A tournament as plain data, for a ranking file and a report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.ranking.agreement import correlate_with_ranks
from parlai_ext.ranking.ratings import FOOTBALL, SHUFFLES, Rating, rate
from parlai_ext.ranking.tournament import Tournament

METHODS = ('openskill', 'bradley_terry', *FOOTBALL)


def summary(
    results: Tournament,
    methods: Sequence[str] = METHODS,
    *,
    ranks: Mapping[str, float | None] | None = None,
    seed: int = 0,
    shuffles: int = SHUFFLES,
) -> dict[str, Any]:
    """
    Return points, cross-table, matches and ratings; undefined ones have a `reason`.

    :param ranks: human ranks (1 is best); each rating then has its tau with them.
    """
    return {
        'systems': list(results.systems),
        'dimensions': list(results.dimensions),
        'n_games': len(results.results),
        'cross_table': results.cross_table(),
        'dimension_points': results.dimension_points(),
        'records': records(results),
        'ratings': {
            method: _rating(results, method, ranks, seed, shuffles)
            for method in methods
        },
        'incomplete': results.incomplete(),
        'notes': results.notes(),
    }


def records(results: Tournament) -> dict[str, dict[str, int]]:
    """
    Return, for each system, games won, drawn and lost, and matches likewise.
    """
    found = {
        name: dict.fromkeys([f'{unit}_{end}' for unit in UNITS for end in ENDS], 0)
        for name in results.systems
    }
    for game in results.compared:
        _count(found, 'games', (game.game.first, game.game.second), game.winner)
    for match in results.matches:
        _count(found, 'matches', match.systems, match.winner)
    return found


UNITS, ENDS = ('games', 'matches'), ('won', 'drawn', 'lost')


def _count(
    found: dict[str, dict[str, int]],
    unit: str,
    pair: tuple[str, str],
    winner: str | None,
) -> None:
    for name in pair:
        end = 'drawn' if winner is None else 'won' if winner == name else 'lost'
        found[name][f'{unit}_{end}'] += 1


def _rating(
    results: Tournament,
    method: str,
    ranks: Mapping[str, float | None] | None,
    seed: int,
    shuffles: int,
) -> dict[str, Any]:
    """
    Return a rating as data; a package that is missing is its reason.
    """
    try:
        rating = rate(results, method, seed=seed, shuffles=shuffles)
    except UserError as error:
        nobody: dict[str, float | None] = dict.fromkeys(results.systems)
        rating = Rating(method, nobody, f'rating:{method}', reason=str(error))
    return rating_data(rating, ranks)


def rating_data(
    rating: Rating, ranks: Mapping[str, float | None] | None = None
) -> dict[str, Any]:
    """
    Return a rating as plain data, with its tau when there are human ranks.
    """
    found = {
        'values': dict(rating.values),
        'spreads': dict(rating.spreads),
        'ranks': rating.ranks(),
        'reason': rating.reason,
        'signature': rating.signature,
        'notes': list(rating.notes),
    }
    if ranks is not None:
        agreed = asdict(correlate_with_ranks(rating.values, ranks))
        agreed['reason'] = rating.reason or agreed['reason']
        found['tau'] = {key: agreed[key] for key in ('value', 'n', 'reason', 'notes')}
    return found
