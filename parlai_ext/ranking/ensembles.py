"""
Several scorers as one: the mean of their ranks.

Ranks need all items of a set, so that such an ensemble belongs to a table of a set and
is no scorer: the rank of one response would change with the company it keeps.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from parlai_ext.ranking.table import Floats


def mean_rank_scores(scores: Floats) -> Floats:
    """
    Return for each item the mean, over scorers, of its scaled rank, from 0 to 1.

    An item's scaled rank is the share of the items scored by that scorer that it
    exceeds, ties and the item itself counted as half, so that 0.5 is the middle.
    An item that any of the scorers left out has none (nan): a mean over fewer of
    them would be another score.

    :param scores: one row a scorer, one column an item; nan where a score is missing.
    """
    table = np.asarray(scores, dtype=np.float64)
    ranks = stats.rankdata(table, axis=1, nan_policy='omit')
    counts = np.isfinite(table).sum(axis=1, keepdims=True)
    scaled = (ranks - 0.5) / np.maximum(counts, 1)
    means: Floats = scaled.mean(axis=0)
    return means
