"""
Intervals of a share: Wilson's score interval.

Wilson, "Probable inference, the law of succession, and statistical inference", JASA
22(158), 1927. It stays within 0 and 1 and keeps its width at a share of 0 or 1, where
the normal approximation has none.
"""

from __future__ import annotations

import math

from scipy import stats

LEVEL = 0.95


def wilson_interval(successes: float, n: int) -> tuple[float, float]:
    """
    Return the 95 % Wilson interval of ``successes / n``.

    :param successes: may be fractional (a tie is half a success). The interval is then
        wide rather than narrow, since a tie varies less than a success or a failure.
    :raises ValueError: without observations.
    """
    if n < 1:
        raise ValueError('a share of nothing has no interval')
    z = float(stats.norm.ppf(0.5 + LEVEL / 2))
    share = successes / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    spread = share * (1 - share) / n + z * z / (4 * n * n)
    half = z * math.sqrt(spread) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)
