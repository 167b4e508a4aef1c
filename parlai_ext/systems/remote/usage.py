"""
What a remote system has used, what that costs, and the most that it may cost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from parlai_ext.core.errors import UserError
from parlai_ext.systems.remote.replies import RemoteReply, estimated_tokens
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
    Counts what a system uses, in one event loop, and stops it before `max_cost`.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        prices = settings.price_prompt, settings.price_completion
        self.usage = Usage(cost=None if prices == (None, None) else 0.0)
        self._booked = 0.0
        self._under_way = 0
        self._settled = asyncio.Event()

    async def book(self, prompt_tokens: int) -> Booking:
        """
        Set the cost of a request and of its longest reply aside before it is sent.

        Waits for requests under way, which may cost less than was booked for them.

        :raises UserError: when it would exceed `max_cost`.
        """
        completion = self.settings.reply_max_tokens
        cost = self._cost(prompt_tokens, completion)
        while not self._affordable(cost):
            if not self._under_way:
                raise UserError(self._too_much(cost))
            self._settled.clear()
            await self._settled.wait()
        self._booked += cost
        self._under_way += 1
        return Booking(prompt_tokens, completion, cost)

    def settle(self, booking: Booking, reply: RemoteReply) -> None:
        """
        Count a request that was answered.
        """
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        guessed = prompt is None or completion is None
        if prompt is None:
            prompt = booking.prompt_tokens
        if completion is None:
            completion = estimated_tokens(reply.text or '')
        self._count(booking, prompt, completion, guessed)

    def give_up(self, booking: Booking, lost: bool) -> None:
        """
        Count a request that failed.

        :param lost: its reply did not arrive in time, but may have to be paid for.
        """
        if lost:
            tokens = booking.prompt_tokens, booking.completion_tokens
            self._count(booking, *tokens, guessed=True)
        else:
            self._count(booking, 0, 0, guessed=False)

    def count_cached(self, n: int = 1) -> None:
        """
        Count replies from the cache, which cost nothing.
        """
        self.usage = replace(self.usage, cached=self.usage.cached + n)

    def _count(
        self, booking: Booking, prompt: int, completion: int, guessed: bool
    ) -> None:
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
        self._settled.set()

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
        cached = '; what was answered is in the cache' if self.settings.cache else ''
        return (
            f'max_cost: ${spent:.6g} of ${most:.6g} are spent and the next reply may '
            f'cost ${cost:.6g}; go on with a larger one{cached}'
        )
