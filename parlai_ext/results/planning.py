"""
A pilot's scores become numbers of openers that a longer run needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from parlai_ext.core.errors import UserError
from parlai_ext.ranking.intervals import FEWEST_OPENERS
from parlai_ext.ranking.planning import PairPlan, plan_pairs
from parlai_ext.ranking.stopping import opener_means
from parlai_ext.results.rank import RunScores
from parlai_ext.results.stopping import watched_dimension

OBSERVED = 'observed'


@dataclass(frozen=True)
class RunPlan:
    """
    How many openers each pair of targets needs, from a pilot of `n_openers`.

    :param difference: the one to find; `None`: each pair's own.
    :param n_pairings: dialogues over each opener.
    """

    dimension: str
    difference: float | None
    n_openers: int
    n_pairings: int
    pairs: tuple[PairPlan, ...]


def wanted_difference(text: str) -> float | None:
    """
    Return the difference that ``--plan`` names; `None` for the observed ones.

    :raises UserError: for anything else than a number above 0 or ``observed``.
    """
    if text == OBSERVED:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float('inf'):
        raise UserError(
            f'--plan: {text!r}: a difference of mean scores above 0, or {OBSERVED}, is '
            'expected'
        )
    return value


def plan_from_pilot(scores: RunScores, difference: float | None) -> RunPlan:
    """
    Return how many openers the ranked targets of a run need.

    :param difference: the one to find; `None`: each pair's own.
    :raises UserError: for a tournament, or a run with too few openers or targets.
    """
    if scores.options.is_tournament:
        raise UserError('--plan: a tournament has no mean scores to compare')
    tables, ranked = scores.tables, scores.ranked
    dimension = watched_dimension(tables, None)
    values = opener_means(tables.scores[dimension], tables.games_per_opener)
    systems = [s for s, r in zip(tables.systems, ranked, strict=True) if r]
    n_pairs = len(ranked) * (len(ranked) - 1) // 2
    pairs = plan_pairs(values[ranked], systems, difference, n_pairs)
    if not pairs:
        raise UserError(
            f'--plan needs two targets with scores over {FEWEST_OPENERS} openers; this '
            'run has fewer'
        )
    return RunPlan(
        dimension=dimension,
        difference=difference,
        n_openers=len(scores.run.openers),
        n_pairings=len(scores.run.pairings),
        pairs=pairs,
    )
