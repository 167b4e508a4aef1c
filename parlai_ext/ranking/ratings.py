"""
Ratings: from the results of a tournament to one number a system, larger is better.

`openskill` and `trueskill` update skills game by game, in three shuffled orders whose
ratings are averaged (Yang et al. 2022, section 2.2.2); openskill's model is
Thurstone-Mosteller, which is TrueSkill's own. The two football rules count matches.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module, metadata
from itertools import compress
from typing import Any

import numpy as np
import scipy
from scipy.sparse.csgraph import connected_components

from parlai_ext.core.errors import UserError
from parlai_ext.core.signature import signature_line
from parlai_ext.ranking.bradley_terry import PRIOR, bradley_terry_strengths, win_matrix
from parlai_ext.ranking.standings import Rating
from parlai_ext.ranking.table import json_number, round_off_noise
from parlai_ext.tournament.games import Tournament

SHUFFLES = 3
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
    sums: dict[str, float | None] = dict.fromkeys(sorted(raw))
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
    runs: list[dict[str, Any]] = []
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
    name, licence = PACKAGES[package]
    try:
        module = import_module(name)
    except ImportError:
        raise UserError(
            f'rating {package}: the package is not installed; '
            f'pip install {package}{licence}'
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
    num_groups, group = connected_components(wins)
    if num_groups == 1:
        return None
    joined = sorted(compress(results.systems, group == group[0]))
    return f'no games join {", ".join(joined)} and the rest'


def _pairwise(results: Tournament) -> list[tuple[str, str, str | None]]:
    return [(r.game.first, r.game.second, r.winner) for r in results.compared_games]
