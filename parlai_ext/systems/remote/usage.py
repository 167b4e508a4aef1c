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
    `cost` is in US dollars, `None` without a price.
    """

    requests: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None


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

    async def book(self, prompt: int) -> None:
        """
        Set the cost of a request and of its longest reply aside before it is sent.

        Waits for requests under way, which may cost less than was booked for them.

        :param prompt: an estimate of its tokens.
        :raises UserError: when it would exceed `max_cost`.
        """
        cost, most = self._longest_cost(prompt), self.settings.max_cost
        while most is not None and self._spent + self._booked + cost > most * ROUNDING:
            if not self._under_way:
                cached = '; what was answered is in the cache'
                raise UserError(
                    f'max_cost: ${self._spent:.6g} of ${most:.6g} are spent and the '
                    f'next reply may cost ${cost:.6g}; go on with a larger one'
                    f'{cached if self.settings.cache else ""}'
                )
            self._settled.clear()
            await self._settled.wait()
        self._booked += cost
        self._under_way += 1

    def settle(self, prompt: int, reply: RemoteReply) -> None:
        """
        Count a request that was answered.

        :param prompt: as of `book`.
        """
        tokens, completion = reply.prompt_tokens, reply.completion_tokens
        if completion is None:
            completion = estimated_tokens(reply.text or '')
        self._count(prompt, prompt if tokens is None else tokens, completion)

    def give_up(self, prompt: int, lost: bool) -> None:
        """
        Count a request that failed.

        :param prompt: as of `book`.
        :param lost: its reply did not arrive in time, but may have to be paid for.
        """
        longest = self.settings.reply_max_tokens
        self._count(prompt, prompt * lost, longest * lost)

    def count_cached(self, n: int = 1) -> None:
        """
        Count replies from the cache, which cost nothing.
        """
        self.usage = replace(self.usage, cached=self.usage.cached + n)

    @property
    def _spent(self) -> float:
        return self.usage.cost or 0.0

    def _count(self, booked_prompt: int, prompt: int, completion: int) -> None:
        old = self.usage
        cost = self._cost(prompt, completion)
        self.usage = Usage(
            old.requests + 1,
            old.cached,
            old.prompt_tokens + prompt,
            old.completion_tokens + completion,
            None if old.cost is None else old.cost + cost,
        )
        self._under_way -= 1
        freed = self._longest_cost(booked_prompt)
        self._booked = self._booked - freed if self._under_way else 0.0
        self._settled.set()

    def _longest_cost(self, prompt: int) -> float:
        return self._cost(prompt, self.settings.reply_max_tokens)

    def _cost(self, prompt: int, completion: int) -> float:
        price_prompt = self.settings.price_prompt or 0.0
        price_completion = self.settings.price_completion or 0.0
        return (prompt * price_prompt + completion * price_completion) / MILLION
