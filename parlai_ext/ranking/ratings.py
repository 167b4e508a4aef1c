"""
Ratings: from the results of a tournament to one number a system, larger is better.

`openskill` and `trueskill` update skills game by game, in three shuffled orders whose
ratings are averaged (Yang et al. 2022, section 2.2.2); openskill's model is
Thurstone-Mosteller, which is TrueSkill's own. The two football rules count matches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module, metadata
from typing import Any

import numpy as np
from scipy import stats

from parlai_ext.core.errors import UserError
from parlai_ext.core.signature import signature_line
from parlai_ext.ranking.bradley_terry import PRIOR, bradley_terry_strengths, win_matrix
from parlai_ext.ranking.table import json_number, round_off_noise
from parlai_ext.tournament.games import Tournament

SHUFFLES = 3
# standard deviations to each side that hold 95 % of a normal distribution
NORMAL_BOUND = 1.96
FOOTBALL = {'3-1-0': 3, '2-1-0': 2}
INSTALL = {
    'openskill': 'pip install openskill',
    'trueskill': 'pip install trueskill (free for non-commercial use only)',
}

Pairwise = Sequence[tuple[str, str, str | None]]
Skills = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Rating:
    """
    A value for each system, larger is better, or the reason why there is none.

    `spreads` holds standard deviations where the method knows them. `signature` fixes
    every number.
    """

    method: str
    values: Mapping[str, float | None]
    signature: str
    spreads: Mapping[str, float] = field(default_factory=dict)
    reason: str | None = None
    notes: tuple[str, ...] = ()

    def ranks(self) -> dict[str, float | None]:
        """
        Return rank 1 for the best; equal values share the mean of their ranks.
        """
        return rank_values(self.values)


def rate(
    results: Tournament,
    method: str = 'openskill',
    *,
    seed: int = 0,
    shuffles: int = SHUFFLES,
    prior: float = PRIOR,
) -> Rating:
    """
    Rate the systems of a tournament.

    A system without a game that has a result has no value; the others have one.

    :param seed: decides the shuffles; :param prior: see `bradley_terry`.
    :raises UserError: for an unknown method, or one whose package is not installed.
    """
    if method not in METHODS:
        raise UserError(f'unknown rating {method!r}; known: {", ".join(METHODS)}')
    played = {name for match in results.matches for name in match.systems}
    rated = tuple(name for name in results.systems if name in played)
    with_games = replace(results, systems=rated) if rated else results
    rating = METHODS[method](with_games, seed=seed, shuffles=shuffles, prior=prior)
    rounded = _rounded_values(list(rating.values.values()))
    values = dict(zip(rating.values, rounded, strict=True))
    return replace(
        rating, method=method, values={n: values.get(n) for n in results.systems}
    )


def sum_of_ranks(raw: Mapping[str, Mapping[str, float | None]]) -> Rating:
    """
    Rate by the sum of per-dimension ranks, for setups without opponents.

    The value is the negated sum, so that larger is better. A dimension on which some
    system has no raw score is left out for all, and noted.
    """
    dimensions = sorted(
        {name for by_dimension in raw.values() for name in by_dimension}
    )
    notes, complete = [], []
    for dimension in dimensions:
        lacking = sorted(
            n
            for n, by_dimension in raw.items()
            if _missing(by_dimension.get(dimension))
        )
        if lacking:
            notes.append(f'{dimension} left out: no raw score of {", ".join(lacking)}')
        else:
            complete.append(dimension)
    signature = signature_line({'rating': 'sum_of_ranks', 'dimensions': complete})
    reason = None
    if len(raw) < 2:
        reason = f'{len(raw)} system; ranks need two or more'
    elif not complete:
        reason = 'no dimension has a raw score of every system'
    sums: dict[str, float | None] = dict.fromkeys(sorted(raw))
    if reason is None:
        ranks = [rank_values({n: raw[n][d] for n in sums}) for d in complete]
        sums = {
            n: -math.fsum(dimension_ranks[n] or 0.0 for dimension_ranks in ranks)
            for n in sums
        }
    return Rating('sum_of_ranks', sums, signature, {}, reason, tuple(notes))


def rank_values(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """
    Return rank 1 for the largest value, mean ranks for equal ones, `None` for none.
    """
    rated = [name for name, value in values.items() if not _missing(value)]
    numbers = round_off_noise(np.array([float(values[n] or 0.0) for n in rated]))
    ranks: list[float] = stats.rankdata(-numbers).tolist() if rated else []
    return {**dict.fromkeys(values), **dict(zip(rated, ranks, strict=True))}


def _football(
    results: Tournament, *, win: int, seed: int, shuffles: int, prior: float
) -> Rating:
    """
    Rate by football points: ``win`` for a won match, 1 for a tied one.
    """
    signature = f'rating:{win}-1-0|match:points of all its games'
    empty: dict[str, float | None] = dict.fromkeys(results.systems)
    if reason := results.incomplete():
        return Rating('', empty, signature, reason=reason)
    sums = dict.fromkeys(results.systems, 0.0)
    for match in results.matches:
        if match.winner is None:
            for name in match.systems:
                sums[name] += 1
        else:
            sums[match.winner] += win
    return Rating('', sums, signature, notes=tuple(results.notes()))


def _bradley_terry(
    results: Tournament, *, seed: int, shuffles: int, prior: float
) -> Rating:
    """
    Rate by Bradley-Terry strengths.
    """
    signature = f'rating:bradley_terry|prior:{prior:g}'
    wins = win_matrix(results.systems, _pairwise(results))
    strengths = bradley_terry_strengths(wins, results.systems, prior)
    if isinstance(strengths, str):
        empty: dict[str, float | None] = dict.fromkeys(results.systems)
        return Rating('', empty, signature, reason=strengths)
    return Rating('', strengths, signature, notes=_rating_notes(results))


def _shuffled(
    results: Tournament, *, package: str, seed: int, shuffles: int, prior: float
) -> Rating:
    """
    Average the skills after each of several shuffled orders of the games.
    """
    if shuffles < 1:
        raise UserError(f'shuffles: {shuffles}; 1 or more are needed')
    rate_in_order = SKILL_MODELS[package](package)
    signature = signature_line(
        {
            'rating': package,
            'v': metadata.version(package),
            'model': 'thurstone_mosteller_full' if package == 'openskill' else '1vs1',
            'shuffles': shuffles,
            'seed': seed,
        }
    )
    games = _pairwise(results)
    if reason := _why_not_joined(results):
        empty: dict[str, float | None] = dict.fromkeys(results.systems)
        return Rating('', empty, signature, reason=reason)
    runs: list[Skills] = []
    for k in range(shuffles):
        order = np.random.default_rng([seed % 2**32, k]).permutation(len(games))
        runs.append(rate_in_order(results.systems, [games[i] for i in order]))
    values, spreads = (
        {n: math.fsum(run[n][part] for run in runs) / shuffles for n in results.systems}
        for part in (0, 1)
    )
    spreads = {name: json_number(value) or 0.0 for name, value in spreads.items()}
    return Rating('', values, signature, spreads, notes=_rating_notes(results))


def _openskill(package: str) -> Callable[[Sequence[str], Pairwise], Skills]:
    """
    Return a function that rates systems by openskill from games in the order given.
    """
    model = _library(package, 'openskill.models').ThurstoneMostellerFull()

    def rate_in_order(systems: Sequence[str], games: Pairwise) -> Skills:
        skills = {name: model.rating() for name in systems}
        for first, second, winner in games:
            ranks = [0, 0] if winner is None else [winner != first, winner != second]
            teams = [[skills[first]], [skills[second]]]
            ((skills[first],), (skills[second],)) = model.rate(
                teams, ranks=[int(rank) for rank in ranks]
            )
        return {name: (skill.mu, skill.sigma) for name, skill in skills.items()}

    return rate_in_order


def _trueskill(package: str) -> Callable[[Sequence[str], Pairwise], Skills]:
    """
    Return a function that rates systems by TrueSkill from games in the order given.
    """
    model = _library(package, 'trueskill')
    env = model.TrueSkill()

    def rate_in_order(systems: Sequence[str], games: Pairwise) -> Skills:
        skills = {name: env.create_rating() for name in systems}
        for first, second, winner in games:
            better, worse = (second, first) if winner == second else (first, second)
            skills[better], skills[worse] = model.rate_1vs1(
                skills[better], skills[worse], drawn=winner is None, env=env
            )
        return {name: (skill.mu, skill.sigma) for name, skill in skills.items()}

    return rate_in_order


def _library(package: str, module: str) -> Any:
    """
    Return a module of a rating package, imported only now.

    :raises UserError: when the package is not installed.
    """
    try:
        return import_module(module)
    except ImportError:
        raise UserError(
            f'rating {package}: the package is not installed; {INSTALL[package]}'
        ) from None


def _why_not_joined(results: Tournament) -> str | None:
    """
    Return why skills cannot be compared; `None` when a chain of games joins all
    systems, even if some pairs never met.
    """
    if not results.never_met and len(results.systems) > 1:
        return None
    if len(results.systems) < 2 or not results.compared_games:
        return results.incomplete()
    group = _joined_with_first(results)
    if len(group) == len(results.systems):
        return None
    return f'no games join {", ".join(sorted(group))} and the rest'


def _joined_with_first(results: Tournament) -> set[str]:
    """
    Return the systems that a chain of games joins with the first system.
    """
    group: set[str] = set()
    added = {results.systems[0]}
    while added:
        group |= added
        reached = {
            n for m in results.matches if group & {*m.systems} for n in m.systems
        }
        added = reached - group
    return group


def _rating_notes(results: Tournament) -> tuple[str, ...]:
    never = results.never_met
    return (*results.notes(), *([f'{len(never)} pairs never met'] if never else []))


def _pairwise(results: Tournament) -> list[tuple[str, str, str | None]]:
    return [(r.game.first, r.game.second, r.winner) for r in results.compared_games]


def _rounded_values(values: Sequence[float | None]) -> list[float | None]:
    """
    Return values without the digits that the order of additions leaves, so that equal
    ones stay equal.
    """
    numbers = [value for value in values if value is not None]
    rounded = iter(round_off_noise(np.array(numbers)).tolist() if numbers else ())
    return [None if v is None else json_number(next(rounded)) for v in values]


def _missing(value: float | None) -> bool:
    return value is None or value != value


SKILL_MODELS = {'openskill': _openskill, 'trueskill': _trueskill}
METHODS: dict[str, Callable[..., Rating]] = {
    'openskill': partial(_shuffled, package='openskill'),
    'trueskill': partial(_shuffled, package='trueskill'),
    'bradley_terry': _bradley_terry,
    **{name: partial(_football, win=win) for name, win in FOOTBALL.items()},
}
