"""
How often does a scorer give the good response of a pair the higher score?

By kind of the bad response this is a probe: of random and adversarial responses, and of
the failures of section 4.3 of PairEval (Park et al. 2024), repeated and
speaker-insensitive responses. 0.5 is chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.ranking.intervals import wilson_interval
from parlai_ext.scoring.base import Scorer, ScoringItem
from parlai_ext.training.pairs import ResponsePair

ALL = 'all'


@dataclass(frozen=True)
class PairAccuracy:
    """
    The part of pairs in which the good response has the higher score, with its 95%
    interval (Wilson); equal scores count one half.

    :param num_unscored: pairs of which a response has no score; they are left out.
    """

    kind: str
    num_pairs: int
    accuracy: float
    low: float
    high: float
    num_unscored: int


def pair_accuracies(
    scorer: Scorer, pairs: Sequence[ResponsePair]
) -> list[PairAccuracy]:
    """
    Return the accuracy of a scorer on each kind of pairs, and on all of them.
    """
    items = [
        ScoringItem(one.context, one.response)
        for pair in pairs
        for one in (pair.good, pair.bad)
    ]
    distinct = list(dict.fromkeys((item.context, item.response) for item in items))
    scores = scorer.checked_scores([ScoringItem(*key) for key in distinct])
    [dimension] = scorer.dimensions[:1]
    values = {
        key: score.values[dimension]
        for key, score in zip(distinct, scores, strict=True)
    }
    wins: dict[str, list[float | None]] = {}
    for pair in pairs:
        good, bad = (values[one.context, one.response] for one in (pair.good, pair.bad))
        win = None if good is None or bad is None else (good > bad) + (good == bad) / 2
        for kind in (pair.kind, ALL):
            wins.setdefault(kind, []).append(win)
    kinds = sorted(set(wins) - {ALL})
    return [_accuracy(kind, wins[kind]) for kind in (*kinds, ALL)]


def _accuracy(kind: str, wins: Sequence[float | None]) -> PairAccuracy:
    known = [win for win in wins if win is not None]
    low, high = wilson_interval(sum(known), len(known))
    mean = sum(known) / len(known) if known else float('nan')
    return PairAccuracy(kind, len(known), mean, low, high, len(wins) - len(known))
