"""
Ratings: from the results of a tournament to one number a system, larger is better.

`openskill` and `trueskill` update skills game by game, in three shuffled orders whose
ratings are averaged (Yang et al. 2022, section 2.2.2); openskill's model is
Thurstone-Mosteller, which is TrueSkill's own. The two football rules count matches.

Bradley-Terry strengths from the games of a tournament; a draw is half a win for both.

The chance that i beats j is ``1 / (1 + exp(s_j - s_i))`` (Bradley and Terry 1952). With
wins alone the likelihood has no maximum as soon as a system wins (or loses) all its
games, which happens in most small tournaments. So every pair that met is given more
drawn games (`prior`, part of the signature); 0 is maximum likelihood, undefined in such
tournaments.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module, metadata
from itertools import compress
from typing import Any

import numpy as np
import scipy

from parlai_ext.core import UserError, signature_line
from parlai_ext.ranking.intervals import Floats, json_number, round_off_noise
from parlai_ext.ranking.standings import Rating
from parlai_ext.tournament.games import Tournament

SHUFFLES = 3
PRIOR = 0.5
STEPS = 10_000
CLOSE = 1e-12
CLOSE_IN_DRAWS = 1e-6  # far below what a bootstrap can tell apart
# standard deviations to each side that hold 95 % of a normal distribution
NORMAL_BOUND = 1.96
FOOTBALL = {'3-1-0': 3, '2-1-0': 2}
OPENSKILL, TRUESKILL, BRADLEY_TERRY = 'openskill', 'trueskill', 'bradley_terry'
# the module of each package, and how to get it
PACKAGES = {
    OPENSKILL: ('openskill.models', 'pip install openskill'),
    TRUESKILL: (
        'trueskill',
        'pip install trueskill (free for non-commercial use only)',
    ),
}
# makes a new skill; changes the skills of the better and the worse system of a game
SkillModel = tuple[Callable[[], Any], Callable[..., Any]]
METHODS = (*PACKAGES, BRADLEY_TERRY, *FOOTBALL)


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
    if method in FOOTBALL:
        rating = _football_rating(with_games, method)
    elif method == BRADLEY_TERRY:
        rating = _bradley_terry_rating(with_games, prior)
    else:
        rating = _skill_rating(with_games, method, seed=seed, shuffles=shuffles)
    # without the digits that the order of additions leaves, equal ones stay equal
    numbers = [rating.values.get(name) for name in results.systems]
    rounded = round_off_noise(np.array(numbers, np.float64)).tolist()
    values = dict(zip(results.systems, map(json_number, rounded), strict=True))
    never = with_games.never_met
    notes = [*with_games.notes(), *([f'{len(never)} pairs never met'] if never else [])]
    return replace(
        rating,
        values=values,
        ranks=rank_values(values),
        notes=() if rating.reason else tuple(notes),
    )


def _football_rating(results: Tournament, method: str) -> Rating:
    """
    Return the points of each system from its matches, or why there are none.
    """
    signature = f'rating:{method}|match:points of all its games'
    if reason := results.incomplete():
        return Rating(reason=reason, signature=signature)
    points = dict.fromkeys(results.systems, 0.0)
    for match in results.matches:
        for name in match.systems:
            won = match.winner == name
            points[name] += 1 if match.winner is None else FOOTBALL[method] * won
    return Rating(values=points, signature=signature)


def _bradley_terry_rating(results: Tournament, prior: float) -> Rating:
    signature = f'rating:bradley_terry|prior:{prior:g}'
    wins = win_matrix(results.systems, _pairwise(results))
    strengths = bradley_terry_strengths(wins, results.systems, prior)
    if isinstance(strengths, str):
        return Rating(reason=strengths, signature=signature)
    return Rating(values=strengths, signature=signature)


def _skill_rating(
    results: Tournament, package: str, *, seed: int, shuffles: int
) -> Rating:
    """
    Return the mean skills by a package with their standard deviations, or why skills
    cannot be compared.

    :raises UserError: when it is not installed, or without a shuffle.
    """
    if shuffles < 1:
        raise UserError(f'shuffles: {shuffles}; 1 or more are needed')
    model = _skill_model(package)
    signature = signature_line(
        {
            'rating': package,
            'v': metadata.version(package),
            'model': 'thurstone_mosteller_full' if package == OPENSKILL else '1vs1',
            'shuffles': shuffles,
            'seed': seed,
        }
    )
    if reason := _why_not_joined(results):
        return Rating(reason=reason, signature=signature)
    values, spreads = _mean_skills(results, model, seed, shuffles)
    return Rating(values=values, spreads=spreads, signature=signature)


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
    results: Tournament, model: SkillModel, seed: int, shuffles: int
) -> tuple[dict[str, float], ...]:
    """
    Return means and standard deviations of skills, each averaged over several shuffled
    orders of the games.
    """
    new_skill, play = model
    games = _pairwise(results)
    runs = []
    for k in range(shuffles):
        skills = {name: new_skill() for name in results.systems}
        order = np.random.default_rng([seed % 2**32, k]).permutation(len(games))
        for first, second, winner in (games[i] for i in order):
            better, worse = (second, first) if winner == second else (first, second)
            skills[better], skills[worse] = play(
                skills[better], skills[worse], drawn=winner is None
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


def _skill_model(package: str) -> SkillModel:
    """
    Return what makes a new skill, and what changes the skills of the better and the
    worse system of a game. The package is imported only now.

    :raises UserError: when it is not installed.
    """
    name, remedy = PACKAGES[package]
    try:
        module = import_module(name)
    except ImportError:
        raise UserError(
            f'rating {package}: the package is not installed; {remedy}'
        ) from None
    if package == TRUESKILL:
        env = module.TrueSkill()
        return env.create_rating, partial(module.rate_1vs1, env=env)
    model = module.ThurstoneMostellerFull()

    def play(better: Any, worse: Any, *, drawn: bool) -> tuple[Any, Any]:
        ranks = [0, int(not drawn)]
        ((better,), (worse,)) = model.rate([[better], [worse]], ranks=ranks)
        return better, worse

    return model.rating, play


def _why_not_joined(results: Tournament) -> str | None:
    """
    Return why skills cannot be compared; `None` when a chain of games joins all
    systems, even if some pairs never met.
    """
    if not results.never_met and len(results.systems) > 1:
        return None
    if len(results.systems) < 2 or not results.compared_games:
        return results.incomplete()
    wins = win_matrix(results.systems, [(*m.systems, None) for m in results.matches])
    num_groups, group = scipy.sparse.csgraph.connected_components(wins)
    if num_groups == 1:
        return None
    joined = sorted(compress(results.systems, group == group[0]))
    return f'no games join {", ".join(joined)} and the rest'


def _pairwise(results: Tournament) -> list[tuple[str, str, str | None]]:
    return [(r.game.first, r.game.second, r.winner) for r in results.compared_games]


def bradley_terry_strengths(
    wins: Floats, systems: Sequence[str], prior: float = PRIOR
) -> dict[str, float] | str:
    """
    Return log-strengths with mean 0, or why they are undefined.

    :param wins: ``wins[i, j]``: games that i won against j, half a win for a draw.
    :param prior: wins added to both sides of every pair that met.
    """
    wins = np.asarray(wins, dtype=np.float64)
    wins = wins + prior * ((wins + wins.T) > 0)
    if reason := why_no_maximum(wins, systems):
        return reason
    (strengths,) = _most_likely(wins[None], CLOSE).tolist()
    return dict(zip(systems, strengths, strict=True))


def strengths_of_draws(wins: Floats) -> Floats:
    """
    Return ``[draw, system]`` log-strengths with mean 0, for bootstrap draws of games.
    The prior is added to both sides of every pair that met in any draw, so that a draw
    in which a system wins all has strengths, too.

    :param wins: ``[draw, i, j]``: games that i won against j, half a win for a draw.
    """
    met = (wins + wins.transpose(0, 2, 1)).sum(axis=0) > 0
    return _most_likely(wins + PRIOR * met, CLOSE_IN_DRAWS)


def _most_likely(wins: Floats, close: float) -> Floats:
    """
    Return ``[draw, system]`` log-strengths, up to so much of rounding.
    """
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


def why_no_maximum(wins: Floats, systems: Sequence[str]) -> str | None:
    """
    Return why the likelihood has no maximum; `None` when it has one.

    It has one when a chain of wins leads from each system to each other (Ford 1957,
    "Solution of a ranking problem from binary comparisons").
    """
    if len(systems) < 2:
        return f'{len(systems)} system; a tournament needs two or more'
    num_groups, group = scipy.sparse.csgraph.connected_components(
        wins > 0, connection='strong'
    )
    if num_groups == 1:
        return None
    if scipy.sparse.csgraph.connected_components(wins > 0, connection='weak')[0] > 1:
        return 'the systems fall into groups that never met'
    # the group that never lost to another
    lost = [k for k in range(num_groups) if wins[np.ix_(group != k, group == k)].any()]
    top = next(k for k in range(num_groups) if k not in lost)
    names = ', '.join(compress(systems, group == top))
    return f'{names} won all games against the others; a prior above 0 helps'


def win_matrix(
    systems: Sequence[str], games: Sequence[tuple[str, str, str | None]]
) -> Floats:
    """
    Return wins from ``(one, other, winner)``; `None` is a draw.
    """
    index = {name: i for i, name in enumerate(systems)}
    wins = np.zeros((len(systems), len(systems)))
    for first, other, winner in games:
        i, j = index[first], index[other]
        wins[i, j] += 0.5 if winner is None else winner == first
        wins[j, i] += 0.5 if winner is None else winner != first
    return wins
