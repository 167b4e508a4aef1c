"""
Bradley-Terry strengths from the games of a tournament; a draw is half a win for both.

The chance that i beats j is ``1 / (1 + exp(s_j - s_i))`` (Bradley and Terry 1952). With
wins alone the likelihood has no maximum as soon as a system wins (or loses) all its
games, which happens in most small tournaments. So every pair that met is given more
drawn games (`prior`, part of the signature); 0 is maximum likelihood, undefined in such
tournaments.
"""

from collections.abc import Sequence
from itertools import compress

import numpy as np
from scipy.sparse.csgraph import connected_components

from parlai_ext.ranking.table import Floats

PRIOR = 0.5
STEPS = 10_000
CLOSE = 1e-12
CLOSE_IN_DRAWS = 1e-6  # far below what a bootstrap can tell apart


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
    num_groups, group = connected_components(wins > 0, connection='strong')
    if num_groups == 1:
        return None
    if connected_components(wins > 0, connection='weak')[0] > 1:
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
