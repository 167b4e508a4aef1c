"""
Ratings: from the results of a tournament to one number a system, larger is better.

`openskill` and `trueskill` update skills game by game, in three shuffled orders whose
ratings are averaged (Yang et al. 2022, section 2.2.2); openskill's model is
Thurstone-Mosteller, which is TrueSkill's own. The two football rules count matches.

Bradley-Terry strengths from the games of a tournament; a draw is half a win for both.

The chance that i beats j is ``1 / (1 + exp(s_j - s_i))`` (Bradley and Terry 1952). With
wins alone the likelihood has no maximum as soon as a system wins (or loses) all its
games, which happens in most small tournaments. So every pair that met is given one more
drawn game (`PRIOR`, part of the signature). Then a chain of games between all systems
is enough (Ford 1957, "Solution of a ranking problem from binary comparisons"), as it is
for skills.
"""

import math
from collections.abc import Mapping
from dataclasses import field, replace
from importlib import import_module, metadata, util
from itertools import compress

import numpy as np
import scipy

from parlai_ext.core import frozen, signature_line
from parlai_ext.ranking.agreement import Correlation
from parlai_ext.ranking.games import Tournament
from parlai_ext.ranking.intervals import Floats, json_number, round_off_noise
from parlai_ext.view import count_of

SHUFFLES = 3
PRIOR = 0.5  # wins added to both sides of a pair
STEPS = 10_000
CLOSE = 1e-12
CLOSE_IN_DRAWS = 1e-6  # far below what a bootstrap can tell apart
# standard deviations to each side that hold 95 % of a normal distribution
NORMAL_BOUND = 1.96
FOOTBALL = {'3-1-0': 3, '2-1-0': 2}
OPENSKILL, TRUESKILL, BRADLEY_TERRY = 'openskill', 'trueskill', 'bradley_terry'


@frozen(kw_only=True)
class Rating:
    """
    A value for each system of a tournament, larger is better, with ranks; or the reason
    why there is none.

    `spreads` holds standard deviations where the method knows them. `signature` fixes
    every number. `tau` is Kendall's tau-b with human ranks, where there are any.
    """

    values: Mapping[str, float | None] = field(default_factory=dict)
    spreads: Mapping[str, float] = field(default_factory=dict)
    ranks: Mapping[str, float | None] = field(default_factory=dict)
    reason: str | None = None
    signature: str
    notes: tuple[str, ...] = ()
    tau: Correlation | None = None


def rate(
    results: Tournament,
    method: str = OPENSKILL,
    *,
    seed: int = 0,
    shuffles: int = SHUFFLES,
) -> Rating:
    """
    Rate the systems of a tournament.

    A system without a game that has a result has no value; nor has any where the
    package of a method is not installed.

    :param method: one of `RATINGS` that rates games.
    :param seed: decides the shuffles.
    """
    played = {name for match in results.matches for name in match.systems}
    rated = tuple(name for name in results.systems if name in played)
    with_games = replace(results, systems=rated) if rated else results
    wins = win_matrix(with_games)
    reason = _why_undefined(with_games, method, wins)
    values: dict[str, float] = {}
    spreads: dict[str, float] = {}
    if reason is None and method in (OPENSKILL, TRUESKILL):
        values, spreads = _mean_skills(with_games, method, seed, shuffles)
    elif reason is None:
        values = points_or_strengths(with_games, method, wins)
    # without the digits that the order of additions leaves, equal ones stay equal
    numbers = [values.get(name) for name in results.systems]
    rounded = round_off_noise(np.array(numbers, np.float64)).tolist()
    known = dict(zip(results.systems, map(json_number, rounded), strict=True))
    notes = [*with_games.notes()]
    if never := with_games.never_met:
        notes.append(f'{count_of(len(never), "pair")} never met')
    return Rating(
        values=known,
        spreads=spreads,
        ranks=rank_values(known),
        reason=reason,
        signature=_signature(method, seed, shuffles),
        notes=() if reason else tuple(notes),
    )


def _is_missing(method: str) -> bool:
    return method == TRUESKILL and util.find_spec(TRUESKILL) is None


def _signature(method: str, seed: int, shuffles: int) -> str:
    """
    Return what fixes every number of a rating.
    """
    if _is_missing(method):
        return f'rating:{method}'
    if method in FOOTBALL:
        return f'rating:{method}|match:points of all its games'
    if method == BRADLEY_TERRY:
        return f'rating:{method}|prior:{PRIOR:g}'
    return signature_line(
        {
            'rating': method,
            'v': metadata.version(method),
            'model': 'thurstone_mosteller_full' if method == OPENSKILL else '1vs1',
            'shuffles': shuffles,
            'seed': seed,
        }
    )


def _why_undefined(results: Tournament, method: str, wins: Floats) -> str | None:
    """
    Return why systems cannot be rated. Points need a whole tournament; skills and
    strengths only a chain of games that joins all systems.
    """
    if _is_missing(method):
        return (
            'rating trueskill: the package is not installed; pip install trueskill '
            '(free for non-commercial use only)'
        )
    if method in FOOTBALL or len(results.systems) < 2 or not results.compared_games:
        return results.incomplete()
    num_groups, group = scipy.sparse.csgraph.connected_components(wins)
    if num_groups == 1:
        return None
    joined = sorted(compress(results.systems, group == group[0]))
    return f'no games join {", ".join(joined)} and the rest'


def points_or_strengths(
    results: Tournament, method: str, wins: Floats
) -> dict[str, float]:
    """
    Return the points that each system has from its matches by a rule of football, or
    its Bradley-Terry strength.

    :param wins: as `win_matrix` returns them.
    """
    if method == BRADLEY_TERRY:
        [strengths] = bradley_terry_strengths(wins[None], CLOSE).tolist()
        return dict(zip(results.systems, strengths, strict=True))
    points = dict.fromkeys(results.systems, 0.0)
    for match in results.matches:
        for name in match.systems:
            of_win = FOOTBALL[method] * (match.winner == name)
            points[name] += 1 if match.winner is None else of_win
    return points


def sum_of_ranks(raw: Mapping[str, Mapping[str, float | None]]) -> Rating:
    """
    Rate by the sum of per-dimension ranks, for setups without opponents.

    The value is the negated sum, so that larger is better. A dimension on which some
    system has no raw score is left out for all, and noted.
    """
    notes, complete = [], []
    for dimension in sorted({name for own in raw.values() for name in own}):
        lacking = sorted(n for n, own in raw.items() if own.get(dimension) is None)
        if lacking:
            notes.append(f'{dimension} left out: no raw score of {", ".join(lacking)}')
        else:
            complete.append(dimension)
    reason = None
    if len(raw) < 2:
        reason = f'{len(raw)} system; ranks need two or more'
    elif not complete:
        reason = 'no dimension has a raw score of every system'
    sums = dict.fromkeys(sorted(raw))
    if reason is None:
        ranks = [rank_values({n: raw[n][d] for n in sums}) for d in complete]
        sums = {n: -math.fsum(one[n] or 0.0 for one in ranks) for n in sums}
    return Rating(
        values=sums,
        ranks=rank_values(sums),
        reason=reason,
        signature=signature_line({'rating': 'sum_of_ranks', 'dimensions': complete}),
        notes=tuple(notes),
    )


def rank_values(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """
    Return rank 1 for the largest value, mean ranks for equal ones, `None` for none.
    """
    numbers = round_off_noise(np.array([*values.values()], np.float64))
    ranks = scipy.stats.rankdata(-numbers, nan_policy='omit').tolist()
    return dict(zip(values, map(json_number, ranks), strict=True))


def _mean_skills(
    results: Tournament, package: str, seed: int, shuffles: int
) -> tuple[dict[str, float], ...]:
    """
    Return means and standard deviations of skills, each averaged over several shuffled
    orders of the games.
    """
    if package == TRUESKILL:
        model = import_module(TRUESKILL).TrueSkill()
        new_skill = model.create_rating
    else:
        model = import_module('openskill.models').ThurstoneMostellerFull()
        new_skill = model.rating
    games = results.compared_games
    runs = []
    for k in range(shuffles):
        skills = {name: new_skill() for name in results.systems}
        order = np.random.default_rng([seed % 2**32, k]).permutation(len(games))
        for one in (games[i] for i in order):
            first, second = one.game.sides
            better, worse = (second, first) if one.winner == second else (first, second)
            ((skills[better],), (skills[worse],)) = model.rate(
                [[skills[better]], [skills[worse]]],
                ranks=[0, int(one.winner is not None)],
            )
        runs.append(skills)
    values, spreads = (
        {
            name: math.fsum(getattr(run[name], part) for run in runs) / shuffles
            for name in results.systems
        }
        for part in ('mu', 'sigma')
    )
    return values, {name: json_number(v) or 0.0 for name, v in spreads.items()}


def bradley_terry_strengths(wins: Floats, close: float = CLOSE_IN_DRAWS) -> Floats:
    """
    Return ``[draw, system]`` log-strengths with mean 0, for draws of games.

    The prior is added to both sides of every pair that met in any draw, so that a draw
    in which a system wins all has strengths, too.

    :param wins: ``[draw, i, j]``: games that i won against j, half a win for a draw.
    :param close: up to so much of rounding.
    """
    wins = wins + PRIOR * ((wins + wins.transpose(0, 2, 1)).sum(axis=0) > 0)
    games = wins + wins.transpose(0, 2, 1)
    won = wins.sum(axis=2)
    odds = np.ones(won.shape)
    for _ in range(STEPS):
        # Hunter (2004), "MM algorithms for generalized Bradley-Terry models", eq. 3
        new = won / (games / (odds[:, :, None] + odds[:, None, :])).sum(axis=2)
        new /= np.exp(np.log(new).mean(axis=1, keepdims=True))
        done = np.abs(np.log(new / odds)).max() < close
        odds = new
        if done:
            break
    return np.asarray(np.log(odds))


def win_matrix(results: Tournament) -> Floats:
    """
    Return ``[i, j]``: games that i won against j, half a win for a draw.
    """
    index = {name: i for i, name in enumerate(results.systems)}
    wins = np.zeros((len(index), len(index)))
    for one in results.compared_games:
        i, j = (index[name] for name in one.game.sides)
        won = 0.5 if one.winner is None else float(one.winner == one.game.first)
        wins[i, j] += won
        wins[j, i] += 1 - won
    return wins
