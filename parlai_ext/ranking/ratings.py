"""
Ratings: from the results of a tournament to one number a system, larger is better.

`openskill` and `trueskill` follow the games one by one, in three shuffled orders whose
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
from parlai_ext.ranking.tournament import Tournament

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
    What a rating says: a value for each system, or why there is none.

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
    Rate the systems of a tournament; one without a game that has a result has no value
    and takes nobody else's away.

    :param seed: decides the shuffles; :param prior: see `bradley_terry`.
    :raises UserError: for an unknown method, or one whose package is not installed.
    """
    if method not in METHODS:
        raise UserError(f'unknown rating {method!r}; known: {", ".join(METHODS)}')
    played = {name for match in results.matches for name in match.systems}
    met = tuple(name for name in results.systems if name in played)
    some = replace(results, systems=met) if met else results
    one = METHODS[method](some, seed=seed, shuffles=shuffles, prior=prior)
    values = dict(zip(one.values, _settled(list(one.values.values())), strict=True))
    return replace(
        one, method=method, values={n: values.get(n) for n in results.systems}
    )


def sum_of_ranks(raw: Mapping[str, Mapping[str, float | None]]) -> Rating:
    """
    Rate by the sum of per-dimension ranks, for setups without opponents.

    The value is the negated sum, so that larger is better. A dimension that some
    system lacks is left out for all, and said.
    """
    dimensions = sorted({name for of in raw.values() for name in of})
    notes, whole = [], []
    for dimension in dimensions:
        lacking = sorted(n for n, of in raw.items() if _missing(of.get(dimension)))
        if lacking:
            notes.append(f'{dimension} left out: no raw score of {", ".join(lacking)}')
        else:
            whole.append(dimension)
    signature = signature_line({'rating': 'sum_of_ranks', 'dimensions': whole})
    reason = None
    if len(raw) < 2:
        reason = f'{len(raw)} system; ranks need two or more'
    elif not whole:
        reason = 'no dimension has a raw score of every system'
    sums: dict[str, float | None] = dict.fromkeys(sorted(raw))
    if reason is None:
        of_each = [rank_values({n: raw[n][d] for n in sums}) for d in whole]
        sums = {n: -math.fsum(ranks[n] or 0.0 for ranks in of_each) for n in sums}
    return Rating('sum_of_ranks', sums, signature, {}, reason, tuple(notes))


def rank_values(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """
    Return rank 1 for the largest value, mean ranks for equal ones, `None` for none.
    """
    there = [name for name, value in values.items() if not _missing(value)]
    numbers = round_off_noise(np.array([float(values[n] or 0.0) for n in there]))
    ranks: list[float] = stats.rankdata(-numbers).tolist() if there else []
    return {**dict.fromkeys(values), **dict(zip(there, ranks, strict=True))}


def _football(
    results: Tournament, *, win: int, seed: int, shuffles: int, prior: float
) -> Rating:
    """
    Sum `win` points for a won match and 1 for a tied one.
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
    signature = f'rating:bradley_terry|prior:{prior:g}'
    wins = win_matrix(results.systems, _pairwise(results))
    found = bradley_terry_strengths(wins, results.systems, prior)
    if isinstance(found, str):
        empty: dict[str, float | None] = dict.fromkeys(results.systems)
        return Rating('', empty, signature, reason=found)
    return Rating('', found, signature, notes=_notes(results))


def _shuffled(
    results: Tournament, *, package: str, seed: int, shuffles: int, prior: float
) -> Rating:
    """
    Average the skills after each of several shuffled orders of the games.
    """
    if shuffles < 1:
        raise UserError(f'shuffles: {shuffles}; 1 or more are needed')
    follow = FOLLOW[package](package)
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
    if reason := _unlinked(results):
        empty: dict[str, float | None] = dict.fromkeys(results.systems)
        return Rating('', empty, signature, reason=reason)
    runs: list[Skills] = []
    for k in range(shuffles):
        order = np.random.default_rng([seed % 2**32, k]).permutation(len(games))
        runs.append(follow(results.systems, [games[i] for i in order]))
    values, spreads = (
        {n: math.fsum(run[n][part] for run in runs) / shuffles for n in results.systems}
        for part in (0, 1)
    )
    spreads = {name: json_number(value) or 0.0 for name, value in spreads.items()}
    return Rating('', values, signature, spreads, notes=_notes(results))


def _openskill(package: str) -> Callable[[Sequence[str], Pairwise], Skills]:
    model = _library(package, 'openskill.models').ThurstoneMostellerFull()

    def follow(systems: Sequence[str], games: Pairwise) -> Skills:
        skills = {name: model.rating() for name in systems}
        for one, other, winner in games:
            ranks = [0, 0] if winner is None else [winner != one, winner != other]
            teams = [[skills[one]], [skills[other]]]
            ((skills[one],), (skills[other],)) = model.rate(
                teams, ranks=[int(rank) for rank in ranks]
            )
        return {name: (of.mu, of.sigma) for name, of in skills.items()}

    return follow


def _trueskill(package: str) -> Callable[[Sequence[str], Pairwise], Skills]:
    model = _library(package, 'trueskill')
    env = model.TrueSkill()

    def follow(systems: Sequence[str], games: Pairwise) -> Skills:
        skills = {name: env.create_rating() for name in systems}
        for one, other, winner in games:
            better, worse = (other, one) if winner == other else (one, other)
            skills[better], skills[worse] = model.rate_1vs1(
                skills[better], skills[worse], drawn=winner is None, env=env
            )
        return {name: (of.mu, of.sigma) for name, of in skills.items()}

    return follow


def _library(package: str, module: str) -> Any:
    """
    Import a rating package only now.
    """
    try:
        return import_module(module)
    except ImportError:
        raise UserError(
            f'rating {package}: the package is not installed; {INSTALL[package]}'
        ) from None


def _unlinked(results: Tournament) -> str | None:
    """
    Say why skills do not compare, or `None`: pairs that never met are no hindrance as
    long as a chain of games joins all systems.
    """
    if not results.never_met and len(results.systems) > 1:
        return None
    if len(results.systems) < 2 or not results.compared:
        return results.incomplete()
    group = _joined(results)
    if len(group) == len(results.systems):
        return None
    return f'no games join {", ".join(sorted(group))} and the rest'


def _joined(results: Tournament) -> set[str]:
    """
    Return the systems that a chain of games joins with the first one.
    """
    group: set[str] = set()
    grown = {results.systems[0]}
    while grown:
        group |= grown
        met = {n for m in results.matches if group & {*m.systems} for n in m.systems}
        grown = met - group
    return group


def _notes(results: Tournament) -> tuple[str, ...]:
    never = results.never_met
    return (*results.notes(), *([f'{len(never)} pairs never met'] if never else []))


def _pairwise(results: Tournament) -> list[tuple[str, str, str | None]]:
    return [(r.game.first, r.game.second, r.winner) for r in results.compared]


def _settled(values: Sequence[float | None]) -> list[float | None]:
    """
    Round away what the order of additions leaves, so that equals stay equal.
    """
    there = [value for value in values if value is not None]
    rounded = iter(round_off_noise(np.array(there)).tolist() if there else ())
    return [None if v is None else json_number(next(rounded)) for v in values]


def _missing(value: float | None) -> bool:
    return value is None or value != value


FOLLOW = {'openskill': _openskill, 'trueskill': _trueskill}
METHODS: dict[str, Callable[..., Rating]] = {
    'openskill': partial(_shuffled, package='openskill'),
    'trueskill': partial(_shuffled, package='trueskill'),
    'bradley_terry': _bradley_terry,
    **{name: partial(_football, win=win) for name, win in FOOTBALL.items()},
}
