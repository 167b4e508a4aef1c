"""
Bradley-Terry strengths from the games of a tournament; a draw is half a win for both.

The chance that i beats j is ``1 / (1 + exp(s_j - s_i))`` (Bradley and Terry 1952). With
wins alone the likelihood has no maximum as soon as a system wins (or loses) all its
games, which happens in most small tournaments. So every pair that met is given more
drawn games (`prior`, part of the signature); 0 is maximum likelihood, undefined in such
tournaments.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

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
    games = wins + wins.T
    won = wins.sum(axis=1)
    odds = np.ones(len(wins))
    for _ in range(STEPS):
        # Hunter (2004), "MM algorithms for generalized Bradley-Terry models", eq. 3
        new = won / (games / (odds[:, None] + odds[None, :])).sum(axis=1)
        new /= np.exp(np.log(new).mean())
        done = np.abs(np.log(new / odds)).max() < CLOSE
        odds = new
        if done:
            break
    return {name: float(np.log(odds[i])) for i, name in enumerate(systems)}


def strengths_of_draws(wins: Floats, prior: float = PRIOR) -> Floats:
    """
    Return ``[draw, system]`` log-strengths with mean 0, for bootstrap draws of games.

    :param wins: ``[draw, i, j]``: games that i won against j, half a win for a draw.
    :param prior: above 0, so that a draw in which a system wins all has strengths, too;
        added to both sides of every pair that met in any draw.
    """
    met = (wins + wins.transpose(0, 2, 1)).sum(axis=0) > 0
    wins = wins + prior * met
    games = wins + wins.transpose(0, 2, 1)
    won = wins.sum(axis=2)
    odds = np.ones(won.shape)
    for _ in range(STEPS):
        new = won / (games / (odds[:, :, None] + odds[:, None, :])).sum(axis=2)
        new /= np.exp(np.log(new).mean(axis=1, keepdims=True))
        done = np.abs(np.log(new / odds)).max() < CLOSE_IN_DRAWS
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
    beats = _reach(wins > 0)
    if beats.all():
        return None
    if not _reach((wins + wins.T) > 0).all():
        return 'the systems fall into groups that never met'
    # only systems that it reaches reach it: its group never lost to another
    top = next(i for i in range(len(wins)) if (beats[:, i] <= beats[i]).all())
    group = [systems[j] for j in np.flatnonzero(beats[top] & beats[:, top]).tolist()]
    return f'{", ".join(group)} won all games against the others; a prior above 0 helps'


def _reach(steps: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """
    Return ``[i, j]``: a chain of any number of steps leads from i to j.
    """
    reach = steps | np.eye(len(steps), dtype=bool)
    for k in range(len(steps)):
        reach |= reach[:, [k]] & reach[[k], :]
    return reach


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
        if winner is None:
            wins[i, j] += 0.5
            wins[j, i] += 0.5
        elif winner == first:
            wins[i, j] += 1
        else:
            wins[j, i] += 1
    return wins
