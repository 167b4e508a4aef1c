"""
When to ask an endpoint again, and how long to wait before.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

FIRST_DELAY = 1.0  # seconds
LONGEST_DELAY = 60.0
LATER = (408, 409, 425, 429)  # and 5xx
# numbers of its own: the common ones are seeded, and belong to systems that sample
_rng = random.Random()


class Transient(Exception):
    """
    A failure after which another try may help.

    :param retry_after: seconds that the endpoint asks to wait.
    :param lost: the request may have been answered, and may have to be paid for.
    :param answered: something came back, of no use.
    """

    def __init__(
        self,
        what: str,
        retry_after: float | None = None,
        lost: bool = False,
        answered: bool = False,
    ):
        super().__init__(what)
        self.retry_after = retry_after
        self.lost = lost
        self.answered = answered


def is_transient(status: int) -> bool:
    """
    True if a status means that another try may help.
    """
    return status in LATER or status >= 500


def delay(attempt: int, retry_after: float | None = None) -> float:
    """
    Return how many seconds to wait after the failed ``attempt`` (from 1): twice as long
    each time, at random a little less, so that many do not come back at once.
    """
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(attempt - 1, 30))
    return max(longest * _rng.uniform(0.5, 1.0), retry_after or 0.0)


def seconds_to_wait(header: str | None) -> float | None:
    """
    Read the header ``Retry-After``, which holds seconds or a date.
    """
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


class Pace:
    """
    Spreads requests, or tokens, evenly: at most so many a minute; `None`: no limit.
    """

    def __init__(
        self, per_minute: float | None, clock: Callable[[], float] = time.monotonic
    ):
        self.per_minute = per_minute
        self.clock = clock
        self._free_at = 0.0

    def reserve(self, amount: float) -> float:
        """
        Take ``amount`` of what a minute has; return how many seconds to wait first.
        """
        if self.per_minute is None:
            return 0.0
        now = self.clock()
        start = max(now, self._free_at)
        self._free_at = start + 60.0 * amount / self.per_minute
        return start - now
