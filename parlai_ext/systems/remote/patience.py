"""
When to ask again, and how long to wait before.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

Wait = Callable[[float], None]  # waits so many seconds, or raises when all is over

FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
# who asks for more patience than this will not be there for the rest of the run
LONGEST_ASKED = 600.0
LATER = (408, 409, 425, 429)  # and 5xx
# numbers of its own: the common ones are seeded, and belong to systems that sample
_rng = random.Random()


class Transient(Exception):
    """
    A failure after which another try may help.

    :param asked: seconds that the endpoint asks to wait.
    :param lost: the request may have been answered, and may have to be paid for.
    :param answered: something came back, of no use.
    """

    def __init__(
        self,
        what: str,
        asked: float | None = None,
        lost: bool = False,
        answered: bool = False,
    ):
        super().__init__(what)
        self.asked = asked
        self.lost = lost
        self.answered = answered


def is_transient(status: int) -> bool:
    """
    Tell whether a status means that another try may help.
    """
    return status in LATER or status >= 500


def delay(attempt: int, asked: float | None = None) -> float:
    """
    Return how long to wait after the failed ``attempt`` (from 1): twice as long each
    time, at random a little less, so that many do not come back at once.
    """
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(attempt - 1, 30))
    return max(longest * _rng.uniform(0.5, 1.0), asked or 0.0)


def asked_wait(retry_after: str | None) -> float | None:
    """
    Read the header ``Retry-After``: seconds, or a date.
    """
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


class Pace:
    """
    Keeps to so many (requests, tokens) a minute, evenly; `None`: as many as come.
    """

    def __init__(
        self, per_minute: float | None, clock: Callable[[], float] = time.monotonic
    ):
        self.per_minute = per_minute
        self.clock = clock
        self._free_at = 0.0
        self._lock = threading.Lock()

    def take(self, amount: float, wait: Wait) -> None:
        """
        Wait for one's turn, and take ``amount`` of what a minute has.
        """
        if self.per_minute is None:
            return
        with self._lock:
            now = self.clock()
            turn = max(now, self._free_at)
            self._free_at = turn + 60.0 * amount / self.per_minute
        if turn > now:
            wait(turn - now)
