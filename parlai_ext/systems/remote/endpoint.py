"""
A remote system: conversations in, answers out, each paid for once.
"""

from __future__ import annotations

import functools
import json
import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.core.errors import UserError
from parlai_ext.systems.chat.messages import ChatStyle, Turn
from parlai_ext.systems.remote.answers import Answer, estimated_prompt
from parlai_ext.systems.remote.cache import AnswerCache, cache_key
from parlai_ext.systems.remote.client import Client
from parlai_ext.systems.remote.patience import Pace, Transient, Wait, delay
from parlai_ext.systems.remote.settings import Settings
from parlai_ext.systems.remote.threads import Halted, run_all
from parlai_ext.systems.remote.usage import Meter, Usage

logger = logging.getLogger(__name__)

PROBE = (Turn(mine=False, text='Hello!'),)
NO_STYLE = ChatStyle()
UNTOLD = '(untold)'  # the dated name of a model that gives itself none


@dataclass(frozen=True)
class Request:
    """
    The bytes of a request, and how many tokens they may be.
    """

    body: bytes
    tokens: int


class Endpoint:
    """
    One remote system of this process.

    :param style: how conversations are put to it.
    :param wait: how to wait between tries; by default until the batch is given up.
    """

    def __init__(
        self,
        settings: Settings,
        style: ChatStyle = NO_STYLE,
        wait: Wait | None = None,
    ):
        self.settings = settings
        self.style = style
        self.client = Client(settings)
        self.meter = Meter(settings)
        self.cache = AnswerCache(settings.cache) if settings.cache else None
        self._wait = wait
        self._requests = Pace(settings.rate)
        self._tokens = Pace(settings.token_rate)
        self._name = settings.dated_model
        self._naming = threading.Lock()

    @property
    def usage(self) -> Usage:
        """
        What was asked of the system so far.
        """
        return self.meter.usage

    def answers(self, conversations: Sequence[Sequence[Turn]]) -> list[Answer]:
        """
        Return an answer to each conversation, in their order.

        :raises UserError: ``option: what is wrong`` when the system cannot go on; what
            was answered until then is in the cache.
        """
        wanted = [self.request(turns, self.style) for turns in conversations]
        halt = threading.Event()
        wait = self._wait or functools.partial(_wait, halt)
        name = self.dated_name(wait)
        if self.cache is None:
            return run_all(
                lambda request: self._asked(request, name, wait),
                wanted,
                self.settings.concurrency,
                halt,
            )
        different = list(dict.fromkeys(wanted))
        self.meter.from_cache(len(wanted) - len(different))
        found = run_all(
            lambda request: self._kept(request, name, wait),
            different,
            self.settings.concurrency,
            halt,
        )
        by_request = dict(zip(different, found, strict=True))
        return [by_request[request] for request in wanted]

    def request(self, turns: Sequence[Turn], style: ChatStyle) -> Request:
        """
        Return the request for a reply: the same bytes for the same conversation.
        """
        body = self.client.format.request(turns, style, self.settings)
        sent = json.dumps(body, sort_keys=True, separators=(',', ':'))
        return Request(sent.encode(), estimated_prompt(turns, style.system_prompt))

    def dated_name(self, wait: Wait | None = None) -> str:
        """
        Return what the model calls itself, or `UNTOLD`; only the first call asks.
        """
        with self._naming:
            if self._name is None:
                answer = self._persistently(self.request(PROBE, NO_STYLE), wait)
                if answer.text is None and answer.model is None:
                    raise UserError(
                        f'remote_url: {self.settings.endpoint} does not reply to '
                        f'{PROBE[0].text!r}: {answer.reason}'
                    )
                self._name = answer.model or UNTOLD
            return self._name

    def _kept(self, request: Request, name: str, wait: Wait) -> Answer:
        """
        Return the answer in the cache, or ask and keep it.
        """
        assert self.cache is not None
        key = cache_key(self.settings.endpoint, name, request.body)
        known = self.cache.get(key)
        if known is not None:
            self.meter.from_cache()
            return known
        return self.cache.put(key, self._asked(request, name, wait))

    def _asked(self, request: Request, name: str, wait: Wait) -> Answer:
        """
        Ask, and refuse the answer of another model than the one asked before.
        """
        answer = self._persistently(request, wait)
        nameless = answer.text is None and answer.model is None
        if not nameless and (answer.model or UNTOLD) != name:
            raise UserError(
                f'remote_model: the endpoint now answers as {answer.model or UNTOLD}, '
                f'this run began with {name}; a new run folder is needed'
            )
        return answer

    def _persistently(self, request: Request, wait: Wait | None) -> Answer:
        """
        Ask until there is an answer, as often as the options allow.
        """
        wait = wait or functools.partial(_wait, threading.Event())
        tries = self.settings.retries + 1
        for attempt in range(1, tries + 1):
            try:
                return self._once(request, wait)
            except Transient as error:
                what, asked = str(error), error.asked
                failed = 'gives no answer' if error.answered else 'cannot be reached'
            if attempt < tries:
                seconds = delay(attempt, asked)
                url = self.settings.endpoint
                logger.info('%s: %s; again in %.1f s', url, what, seconds)
                wait(seconds)
        raise UserError(
            f'remote_url: {self.settings.endpoint} {failed} after {tries} '
            f'{"try" if tries == 1 else "tries"} ({what})'
        )

    def _once(self, request: Request, wait: Wait) -> Answer:
        self._requests.take(1, wait)
        most = request.tokens + self.settings.reply_max_tokens
        self._tokens.take(most, wait)
        booking = self.meter.book(request.tokens)
        try:
            answer = self.client.send(request.body)
        except BaseException as error:
            self.meter.give_up(booking, isinstance(error, Transient) and error.lost)
            raise
        self.meter.settle(booking, answer)
        return answer


@functools.cache
def endpoint(settings: Settings, style: ChatStyle) -> Endpoint:
    """
    Return the system of these settings, one in a process: what was spent and the name
    that the model began with outlive the agent, which may be dropped and loaded again.
    """
    return Endpoint(settings, style)


def _wait(halt: threading.Event, seconds: float) -> None:
    if halt.wait(seconds):
        raise Halted
