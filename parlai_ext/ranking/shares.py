"""
Shares of answers, with the intervals of the ranking: what is drawn anew are contexts
(prompts) with all that was answered about them, and annotators.
"""

from __future__ import annotations

import numpy as np

from parlai_ext.ranking.intervals import (
    FEWEST_PARTNERS,
    Draws,
    draw_counts,
    fixed_intervals,
    sampled_intervals,
)
from parlai_ext.ranking.table import Floats

Interval = tuple[float | None, float | None]


def share_intervals(
    counts: Floats, totals: Floats, bootstraps: int, seed: int
) -> list[Interval]:
    """
    Return the 95 % interval of each share ``counts.sum() / totals.sum()``: for
    annotators like these where there are two or more, else for this one.

    :param counts: ``[share, annotator, context]``: how often the answer was given.
    :param totals: the same shape: how often it could have been given.
    """
    rngs = [np.random.default_rng([seed, k]) for k in (0, 1)]
    by_context = draw_counts(counts.shape[2], bootstraps, rngs[0])
    by_annotator = draw_counts(counts.shape[1], bootstraps, rngs[1])
    fixed, sampled = np.empty((2, bootstraps, len(counts)))
    with np.errstate(invalid='ignore'):
        shares = counts.sum(axis=(1, 2)) / totals.sum(axis=(1, 2))
        for k, (count, total) in enumerate(zip(counts, totals, strict=True)):
            given, asked = by_context @ count.T, by_context @ total.T
            fixed[:, k] = given.sum(axis=1) / asked.sum(axis=1)
            sampled[:, k] = (given * by_annotator).sum(axis=1) / (
                asked * by_annotator
            ).sum(axis=1)
    annotators = (totals.sum(axis=2) > 0).sum(axis=1)
    alone = annotators < FEWEST_PARTNERS
    sampled[:, alone] = fixed[:, alone]
    contexts = (totals.sum(axis=1) > 0).sum(axis=1)
    draws = Draws(shares, fixed - shares, sampled - shares, contexts, annotators)
    these, like_these = fixed_intervals(draws), sampled_intervals(draws)
    ends = [these[k] if alone[k] else like_these[k] for k in range(len(counts))]
    return [(None, None) if np.isnan(low) else (low, high) for low, high in ends]
