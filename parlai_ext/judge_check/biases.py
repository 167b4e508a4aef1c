"""
What the scores of a run go with besides quality: length, overlap with the partner,
position, partner, opener.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from parlai_ext.judge_check.record import Biases
from parlai_ext.judge_check.sample import ScoreColumns
from parlai_ext.ranking.agreement import known_spearman
from parlai_ext.worlds.pairings import IMPORTED

Column = NDArray[np.float64]


def biases(columns: ScoreColumns, dimension: str) -> Biases:
    """
    Return what the scores of one dimension go with, over all judged parts of a run.
    """
    scores = np.asarray(columns.scores[dimension])
    known = np.isfinite(scores)
    openers = [
        # the dialogues of an import are numbered; the number is no opener
        '' if opener.startswith(f'{IMPORTED}-') else opener
        for opener in columns.openers
    ]
    system, partner, opener = (
        variance_share(scores[known], np.asarray(groups, dtype=object)[known])
        for groups in (columns.systems, columns.partners, openers)
    )
    return Biases(
        n=int(known.sum()),
        length=known_spearman(scores, np.asarray(columns.lengths)),
        position=known_spearman(scores, np.asarray(columns.positions)),
        system_share=system,
        partner_share=partner,
        opener_share=opener,
        overlap=known_spearman(scores, np.asarray(columns.overlaps)),
    )


def variance_share(
    scores: Column, groups: NDArray[np.object_] | Sequence[str]
) -> float | None:
    """
    Return the sum of squares between groups over the whole sum of squares (eta
    squared); `None` where there is one group or no variance.
    """
    names, places = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    if len(names) < 2:
        return None
    total = float(((scores - scores.mean()) ** 2).sum())
    if total <= 0:
        return None
    counts = np.bincount(places)
    means = np.bincount(places, weights=scores) / counts
    between = float((counts * (means - scores.mean()) ** 2).sum())
    return min(1.0, between / total)
