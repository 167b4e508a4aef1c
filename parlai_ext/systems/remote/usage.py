"""
What a system has used, what that costs, and the most that it may cost.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from parlai_ext.core.errors import UserError
from parlai_ext.systems.remote.answers import Answer, estimated_tokens
from parlai_ext.systems.remote.settings import Settings

MILLION = 1_000_000
ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Usage:
    """
    What was asked of one system by this process.

    `requests` were sent, those that failed included; `cached` replies cost nothing.
    Of `requests`, `estimated` have token counts that are a guess from the number of
    characters. `cost` is in US dollars, `None` without a price.
    """

    requests: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    estimated: int = 0


@dataclass(frozen=True)
class Booking:
    """
    The most that a request under way may use.
    """

    prompt_tokens: int
    completion_tokens: int
    cost: float


class Meter:
    """
    Counts what is used, on any number of threads, and stops before `max_cost`.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        prices = settings.price_prompt, settings.price_completion
        self.usage = Usage(cost=None if prices == (None, None) else 0.0)
        self._booked = 0.0
        self._under_way = 0
        self._changed = threading.Condition()

    def book(self, prompt_tokens: int) -> Booking:
        """
        Make sure that a request can be paid for, the longest reply included.

        Waits for requests under way, which may cost less than was booked for them.

        :raises UserError: when it cannot.
        """
        completion = self.settings.reply_max_tokens
        cost = self._cost(prompt_tokens, completion)
        with self._changed:
            while not self._affordable(cost):
                if not self._under_way:
                    raise UserError(self._too_much(cost))
                self._changed.wait()
            self._booked += cost
            self._under_way += 1
        return Booking(prompt_tokens, completion, cost)

    def settle(self, booking: Booking, answer: Answer) -> None:
        """
        Count a request that was answered.
        """
        prompt, completion = answer.prompt_tokens, answer.completion_tokens
        guessed = prompt is None or completion is None
        if prompt is None:
            prompt = booking.prompt_tokens
        if completion is None:
            completion = estimated_tokens(answer.text or '')
        self._count(booking, prompt, completion, guessed)

    def give_up(self, booking: Booking, lost: bool) -> None:
        """
        Count a request that failed.

        :param lost: its answer did not arrive in time, but may have to be paid for.
        """
        if lost:
            tokens = booking.prompt_tokens, booking.completion_tokens
            self._count(booking, *tokens, guessed=True)
        else:
            self._count(booking, 0, 0, guessed=False)

    def from_cache(self, n: int = 1) -> None:
        """
        Count replies that cost nothing.
        """
        with self._changed:
            self.usage = replace(self.usage, cached=self.usage.cached + n)

    def _count(
        self, booking: Booking, prompt: int, completion: int, guessed: bool
    ) -> None:
        with self._changed:
            old = self.usage
            cost = self._cost(prompt, completion)
            self.usage = Usage(
                old.requests + 1,
                old.cached,
                old.prompt_tokens + prompt,
                old.completion_tokens + completion,
                None if old.cost is None else old.cost + cost,
                old.estimated + guessed,
            )
            self._under_way -= 1
            self._booked = self._booked - booking.cost if self._under_way else 0.0
            self._changed.notify_all()

    def _cost(self, prompt: int, completion: int) -> float:
        price_prompt = self.settings.price_prompt or 0.0
        price_completion = self.settings.price_completion or 0.0
        return (prompt * price_prompt + completion * price_completion) / MILLION

    def _affordable(self, cost: float) -> bool:
        most = self.settings.max_cost
        spent = (self.usage.cost or 0.0) + self._booked
        return most is None or spent + cost <= most * ROUNDING

    def _too_much(self, cost: float) -> str:
        spent, most = self.usage.cost or 0.0, self.settings.max_cost or 0.0
        kept = '; what was answered is in the cache' if self.settings.cache else ''
        return (
            f'max_cost: ${spent:.6g} of ${most:.6g} are spent and the next reply may '
            f'cost ${cost:.6g}; go on with a larger one{kept}'
        )
