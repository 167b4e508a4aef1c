"""
Does a judge give one response the same score twice? Each answer is asked for anew, also
where the replies of an endpoint are kept; otherwise the second would be the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from parlai_ext.judge_check.record import PromptProbes

Values = Mapping[str, float]
SAME = 1e-6  # relative difference below which two scores are one: noise of float32


def repeats(
    pairs: Sequence[tuple[Values, Values]], scores: Sequence[Values]
) -> PromptProbes:
    """
    Return how first and second scores differ.

    :param pairs: the scores of each response by dimension, first and second.
    :param scores: of all responses, which say how large a difference is.
    """
    same = sum(  # but for rounding
        first.keys() == second.keys()
        and all(math.isclose(v, second[d], rel_tol=SAME) for d, v in first.items())
        for first, second in pairs
    )
    changes = []
    for name in {name for first, _ in pairs for name in first}:
        own = [values[name] for values in scores if name in values]
        spread = pstdev(own) if len(own) > 1 else 0.0
        if spread > 0:
            changes += [
                abs(first[name] - second[name]) / spread
                for first, second in pairs
                if name in first and name in second
            ]
    return PromptProbes(
        len(pairs), len(pairs) - same, mean_change=fmean(changes) if changes else None
    )
