"""
A remote system: conversations in, replies out, each paid for once and kept.

Every reply ever paid for is in one SQLite file. The key is a hash of all that was sent
but the secret, of the address, and of the name that the model gives itself. Writing is
a transaction: killed at any moment, the file holds all earlier replies. Processes may
share it; of two replies to one request the first stays, so that the same conversation
has one reply, sampled or not.
"""

import asyncio
import json
import logging
import os
import random
import re
import sqlite3
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx2

from parlai_ext.core import (
    DATA_ERRORS,
    JsonObject,
    UserError,
    bytes_hash,
    frozen,
    logger,
    parse_own_json,
    shortened,
    whole_characters,
)
from parlai_ext.systems.chat.messages import ChatReply, ChatStyle, ChatTurn, reply_from
from parlai_ext.systems.remote import openai, plain
from parlai_ext.systems.remote.event_loop import certificates, run_in_loop
from parlai_ext.systems.remote.settings import (
    UNTOLD,
    RemoteReply,
    Settings,
    error_words,
    estimated_tokens,
)
from parlai_ext.systems.spending import Spending, total_spending

MILLION = 1_000_000
ROUNDING = 1 + 1e-9


class Meter:
    """
    Counts what a system uses, in one event loop, and stops it before `max_cost`.

    :ivar usage: ``requests`` were sent, those that failed included; ``cached`` replies
        cost nothing; ``cost`` is in US dollars, `None` without a price.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        prices = settings.price_prompt, settings.price_completion
        is_priced = prices != (None, None)
        self.usage = total_spending([{'cost': 0.0} if is_priced else None])
        self._booked: list[float] = []  # for each request under way
        self._settled = asyncio.Event()

    async def book(self, prompt: int) -> float:
        """
        Set the cost of a request and of its longest reply aside before it is sent;
        return it.

        Waits for requests under way, which may cost less than was booked for them.

        :param prompt: an estimate of its tokens.
        :raises UserError: when it would exceed `max_cost`.
        """
        most = self.settings.max_cost
        cost = self._cost(prompt, self.settings.reply_max_tokens)
        while most is not None:
            spent = self.usage['cost'] or 0.0
            if spent + sum(self._booked) + cost <= most * ROUNDING:
                break
            if not self._booked:
                cached = '; what was answered is in the cache'
                raise UserError(
                    f'max_cost: ${spent:.6g} of ${most:.6g} are spent and the '
                    f'next reply may cost ${cost:.6g}; go on with a larger one'
                    f'{cached if self.settings.cache else ""}'
                )
            self._settled.clear()
            await self._settled.wait()
        self._booked.append(cost)
        return cost

    def count(self, **used: float) -> None:
        """
        Count what is used of the keys of `usage`.
        """
        self.usage = total_spending([self.usage, used])

    def settle(self, booked: float, prompt: int, completion: int) -> None:
        """
        Count a request that was answered, or has failed.

        :param booked: what `book` returned for it.
        :param prompt: tokens that have to be paid for, or may have to be.
        :param completion: those of the reply.
        """
        self.count(requests=1, prompt_tokens=prompt, completion_tokens=completion)
        if self.usage['cost'] is not None:
            self.count(cost=self._cost(prompt, completion))
        self._booked.remove(booked)
        self._settled.set()

    def _cost(self, prompt: int, completion: int) -> float:
        price_prompt = self.settings.price_prompt or 0.0
        price_completion = self.settings.price_completion or 0.0
        return (prompt * price_prompt + completion * price_completion) / MILLION


TABLE = 'CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)'
PATIENCE = 60  # seconds to wait while another process writes


class ReplyCache:
    """
    The replies of one file, opened in one thread and used in another.
    """

    def __init__(self, path: str):
        self.path = path
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            self._file = sqlite3.connect(
                path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._bad(error) from error
        self._run(TABLE)

    def get(self, key: str) -> RemoteReply | None:
        """
        Return the reply under ``key``, if there is one.
        """
        rows = self._run('SELECT answer FROM answers WHERE key = ?', key)
        try:
            return RemoteReply(**parse_own_json(rows[0][0])) if rows else None
        except DATA_ERRORS as error:
            raise self._bad(error) from None

    def put(self, key: str, reply: RemoteReply) -> RemoteReply:
        """
        Store a reply, and return the one that is stored: the first under ``key``.
        """
        answer = json.dumps(asdict(reply), sort_keys=True)
        self._run('INSERT OR IGNORE INTO answers VALUES (?, ?)', key, answer)
        return self.get(key) or reply

    def _run(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._bad(error) from error

    def _bad(self, error: Exception) -> UserError:
        return UserError(
            f'remote_cache: {self.path} cannot be used: {error}; name another file, '
            'or none'
        )


for library in ('httpx2', 'httpcore2'):  # which report every request
    logging.getLogger(library).setLevel(logging.WARNING)

PROBE = (ChatTurn(mine=False, text='Hello!'),)
NO_STYLE = ChatStyle()
FIRST_DELAY = 1.0  # seconds
LONGEST_DELAY = 60.0
# numbers of its own: the common ones are seeded, and belong to systems that sample
_rng = random.Random()


class Stopped(Exception):
    """
    Another request of the batch has failed.
    """


async def wait_unless_stopped(seconds: float, stop: asyncio.Event) -> None:
    """
    Wait so many seconds.

    :raises Stopped: as soon as ``stop`` is set.
    """
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
        raise Stopped


@frozen
class Request:
    """
    The bytes of a request, and how many tokens they may be.
    """

    body: bytes
    tokens: int


HEADERS = {
    'Content-Type': 'application/json',
    'Accept': 'application/json',
    'User-Agent': 'parlai_ext',
}
CONNECT_TIMEOUT = 10.0  # seconds
LONGEST_WAIT = 600.0  # an endpoint that asks for more will not be there in this run
LARGEST = 10_000_000  # bytes of a reply
LATER = (408, 409, 425, 429)  # statuses after which another try may help, and 5xx


@dataclass(eq=False)
class Transient(Exception):
    """
    A failure after which another try may help.

    :param retry_after: seconds that the endpoint asks to wait.
    :param lost: the request may have been answered, and may have to be paid for.
    """

    what: str
    retry_after: float | None = None
    lost: bool = False


class Endpoint:
    """
    One remote system of this process.

    Its methods may be called from any thread but work in the one event loop of
    `run_in_loop`, so that nothing here needs a lock.

    :param style: how conversations are put to it.
    """

    def __init__(self, settings: Settings, style: ChatStyle = NO_STYLE):
        self.settings = settings
        self.style = style
        self.format = openai if settings.format == 'openai' else plain
        self._http = httpx2.AsyncClient(
            headers=HEADERS,
            # a cookie would make replies depend on who was answered before
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            verify=certificates(),
            timeout=httpx2.Timeout(
                None, connect=min(CONNECT_TIMEOUT, settings.timeout)
            ),
            limits=httpx2.Limits(max_keepalive_connections=settings.concurrency),
            # the environment's proxy is kept away from this machine's servers
            trust_env=not settings.local,
        )
        self.meter = Meter(settings)
        self.cache = ReplyCache(settings.cache) if settings.cache else None
        self._requests = Pace(settings.rate)
        self._tokens = Pace(settings.token_rate)
        self._name = settings.dated_model

    @property
    def usage(self) -> Spending:
        """
        What was asked of the system so far.
        """
        return self.meter.usage

    def replies(
        self,
        conversations: Sequence[Sequence[ChatTurn]],
        body: JsonObject | None = None,
        anew: bool = False,
    ) -> list[ChatReply]:
        """
        Return a reply to each conversation, in their order, up to a stop string.

        :param body: more fields of the requests; the system's options go before them.
        :param anew: ask, even where the cache has a reply; the cache stays as it is.
        :raises UserError: ``option: what is wrong`` when the system cannot go on; what
            was answered until then is in the cache.
        """
        requests = [self.request(turns, self.style, body) for turns in conversations]
        replies = run_in_loop(self._replies(requests, None if anew else self.cache))
        return [
            ChatReply(None, one.reason or 'no text')
            if one.text is None
            else reply_from(one.text, self.style, one.alternatives)
            for one in replies
        ]

    def dated_name(self) -> str:
        """
        Return what the model calls itself, or `UNTOLD`; only the first call asks.
        """
        return run_in_loop(self._dated_name())

    def request(
        self,
        turns: Sequence[ChatTurn],
        style: ChatStyle,
        body: JsonObject | None = None,
    ) -> Request:
        """
        Return the request for a reply: the same bytes for the same conversation.

        :param body: more fields, where the system's options do not set or remove them.
        """
        own = self.format.request(turns, style, self.settings)
        removed = self.settings.extra or {}
        more = {name: v for name, v in (body or {}).items() if name not in removed}
        sent = json.dumps({**more, **own}, sort_keys=True, separators=(',', ':'))
        texts = [style.system_prompt, *(turn.text for turn in turns)]
        return Request(sent.encode(), sum(map(estimated_tokens, texts)))

    async def _replies(
        self, requests: Sequence[Request], cache: ReplyCache | None
    ) -> list[RemoteReply]:
        """
        Ask for all replies, a few at a time; with a cache, once for all requests that
        are the same. When one fails, no other is asked for; those under way are waited
        for, since they are paid for.
        """
        name = await self._dated_name()
        asked = requests if cache is None else list(dict.fromkeys(requests))
        self.meter.count(cached=len(requests) - len(asked))
        places = asyncio.Semaphore(self.settings.concurrency)
        stop, failures = asyncio.Event(), list[Exception]()

        async def reply_to(request: Request) -> Any:
            async with places:
                if not stop.is_set():
                    try:
                        return await self._cached(request, name, stop, cache)
                    except Exception as error:
                        failures.append(error)
                        stop.set()

        replies = await asyncio.gather(*map(reply_to, asked))
        if failures:
            raise failures[0]
        self.meter.count(cut_replies=sum(one.is_cut for one in replies))
        if cache is None:
            return replies
        by_request = dict(zip(asked, replies, strict=True))
        return [by_request[request] for request in requests]

    async def _dated_name(self) -> str:
        if self._name is None:
            reply = await self._ask(self.request(PROBE, NO_STYLE), asyncio.Event())
            if reply.text is None and reply.model is None:
                raise UserError(
                    f'remote_url: {self.settings.endpoint} does not reply to '
                    f'{PROBE[0].text!r}: {reply.reason}'
                )
            self._name = reply.model or UNTOLD
        return self._name

    async def _cached(
        self, request: Request, name: str, stop: asyncio.Event, cache: ReplyCache | None
    ) -> RemoteReply:
        """
        Return the reply in the cache, or ask for it and store it.

        :param cache: without one, ask in any case, and store nothing.
        :raises UserError: when a model of another name answers.
        """
        # the name that replies give for the model may be more exact than that asked for
        head = f'{self.settings.endpoint}\n{name}\n'.encode()
        key = bytes_hash(head + request.body)
        known = cache.get(key) if cache else None
        if known is not None:
            self.meter.count(cached=1)
            return known
        reply = await self._ask(request, stop)
        nameless = reply.text is None and reply.model is None
        if not nameless and (reply.model or UNTOLD) != name:
            raise UserError(
                f'remote_model: the endpoint now answers as {reply.model or UNTOLD}, '
                f'this run began with {name}; a new run folder is needed'
            )
        # an empty reply may be a fault that passes, and ends its dialogue
        has_text = (reply.text or '').strip()
        return cache.put(key, reply) if cache and has_text else reply

    async def _ask(self, request: Request, stop: asyncio.Event) -> RemoteReply:
        """
        Ask until there is a reply, as often as the options allow.
        """
        tries = self.settings.retries + 1
        for attempt in range(1, tries + 1):
            try:
                return await self._try(request, stop)
            except Transient as error:
                failure = error
            if attempt < tries:
                seconds = delay(attempt, failure.retry_after)
                url = self.settings.endpoint
                logger.info('%s: %s; again in %.1f s', url, failure.what, seconds)
                await wait_unless_stopped(seconds, stop)
        raise UserError(
            f'remote_url: {self.settings.endpoint} gives no answer after '
            f'{tries} {"try" if tries == 1 else "tries"} ({failure.what})'
        )

    async def _try(self, request: Request, stop: asyncio.Event) -> RemoteReply:
        """
        Send a request once, at its time and booked by the meter before.
        """
        tokens = request.tokens + self.settings.reply_max_tokens
        for pace, amount in ((self._requests, 1), (self._tokens, tokens)):
            if (seconds := pace.reserve(amount)) > 0:
                await wait_unless_stopped(seconds, stop)
        booked = await self.meter.book(request.tokens)
        try:
            reply = await self._send(request.body)
        except BaseException as error:
            lost = isinstance(error, Transient) and error.lost
            longest = self.settings.reply_max_tokens
            self.meter.settle(booked, request.tokens * lost, longest * lost)
            raise
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        if completion is None:
            completion = estimated_tokens(reply.text or '')
        prompt = request.tokens if prompt is None else prompt
        self.meter.settle(booked, prompt, completion)
        return reply

    # --- one request and its reply over HTTP, with one deadline for both

    async def _send(self, body: bytes) -> RemoteReply:
        """
        Send a request once, and read the reply.

        :raises Transient: when another try may help.
        :raises UserError: when none will.
        """
        status, headers, raw = await self._post(body)
        words = self.settings.without_key(raw.decode('utf-8-sig', 'replace'))
        data = None
        with suppress(ValueError):  # no JSON, as a format says that reads it
            data = whole_characters(parse_own_json(words))
        if not 200 <= status < 300:
            return self.reply_for_error(status, headers, words, data)
        try:
            return self.format.reply(data)
        except ValueError as error:
            what = f'it answers in another format: {error}: {shortened(words)!r}'
            # some gateways report errors with status 200
            raise Transient(error_words(data) or what) from None

    def reply_for_error(
        self, status: int, headers: Mapping[str, str], words: str, data: Any
    ) -> RemoteReply:
        """
        Return the reply that stands for an error of this conversation alone.

        :param words: the endpoint's; `data` is what they are as JSON.
        :raises Transient: for an error after which another try may help.
        :raises UserError: for any other.
        """
        if 300 <= status < 400:
            place = shortened(headers.get('Location', 'another place'))
            place = self.settings.without_key(place, beginnings=True)
            raise self._bad(f'redirects to {place}; give that one')
        reason = error_words(data) or shortened(words)
        what = self.settings.without_key(f'{status}: {reason}', beginnings=True)
        may_pass = openai.OUT_OF_MONEY.isdisjoint(openai.codes(data))
        if may_pass and (status in LATER or status >= 500):
            seconds = seconds_to_wait(headers.get('Retry-After'))
            if seconds is not None and seconds > LONGEST_WAIT:
                raise self._bad(f'asks to wait {seconds:.0f} s ({what})')
            raise Transient(what, seconds)
        refusal = openai.refusal(data)
        if refusal is not None:
            return RemoteReply(None, refusal, prompt_tokens=0, completion_tokens=0)
        raise self._refused(status, what)

    def url_and_headers(self) -> tuple[str, dict[str, str]]:
        """
        Return the URL with the key where `$NAME` stands for it, which is shown nowhere,
        and the header that has it.
        """
        url, key = self.settings.endpoint, self.settings.key()
        if not key:
            return url, {}
        name = re.escape(self.settings.key_env or '')
        url = re.sub(rf'\${name}(?!\w)', lambda match: key, url)
        return url, {'Authorization': f'Bearer {key}'}

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        url, headers = self.url_and_headers()
        seconds = self.settings.timeout
        try:
            async with asyncio.timeout(seconds):
                sent = self._http.stream('POST', url, content=body, headers=headers)
                async with sent as response:
                    raw = bytearray()
                    async for part in response.aiter_bytes():
                        raw += part
                        if len(raw) > LARGEST:
                            raise httpx2.DecodingError('an answer without end')
                    return response.status_code, response.headers, bytes(raw)
        except TimeoutError:
            raise Transient(f'no answer within {seconds:g} s', lost=True) from None
        except httpx2.ConnectTimeout:
            raise Transient('no connection in time') from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            words = self.settings.without_key(shortened(_root_words(error)))
            if 'CERTIFICATE' in words:
                raise self._bad(f'has no certificate to trust: {words}') from None
            # a URL or a header that is none
            if isinstance(error, httpx2.InvalidURL | httpx2.LocalProtocolError):
                raise self._bad(f'cannot be posted to: {words}') from None
            raise Transient(words) from None

    def _refused(self, status: int, what: str) -> UserError:
        """
        Return the line for a status that no second try will change.
        """
        model = self.settings.model
        if status in (401, 403):
            asks = 'asks for a key, and none is named'
            if self.settings.key_env:
                asks = f'does not accept ${self.settings.key_name}'
            return self._bad(f'{asks} ({what})', 'remote_key_env')
        if status == 404 and model and model in what:
            return self._bad(f'does not know {model} ({what})', 'remote_model')
        return self._bad(f'refuses the request ({what})')

    def _bad(self, what: str, option: str = 'remote_url') -> UserError:
        return UserError(f'{option}: {self.settings.endpoint} {what}')


@dataclass
class Pace:
    """
    Spreads requests, or tokens, evenly: at most so many a minute; `None`: no limit.
    """

    per_minute: float | None
    clock: Callable[[], float] = time.monotonic
    free_at: float = 0.0

    def reserve(self, amount: float) -> float:
        """
        Take ``amount`` of what a minute has; return how many seconds to wait first.
        """
        if self.per_minute is None:
            return 0.0
        now = self.clock()
        start = max(now, self.free_at)
        self.free_at = start + 60.0 * amount / self.per_minute
        return start - now


def delay(attempt: int, retry_after: float | None) -> float:
    """
    Return how many seconds to wait after the failed ``attempt`` (from 1): twice as long
    each time, at random a little less, so that many do not come back at once.
    """
    longest = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(attempt - 1, 30))
    return max(longest * _rng.uniform(0.5, 1.0), retry_after or 0.0)


_endpoints: dict[str, Endpoint] = {}


def shared_endpoint(settings: Settings, style: ChatStyle) -> Endpoint:
    """
    Return the system of these settings, one in a process: what was spent and the name
    that the model began with outlive the agent, which may be dropped and loaded again.
    """
    key = json.dumps([asdict(settings), asdict(style)], sort_keys=True)
    if key not in _endpoints:
        _endpoints[key] = Endpoint(settings, style)
    return _endpoints[key]


def _root_words(error: BaseException) -> str:
    """
    Return the words of the exception that was first, as the system says them.
    """
    while True:
        if isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        elif (cause := error.__cause__ or error.__context__) is not None:
            error = cause
        else:
            break
    number = error.errno if isinstance(error, OSError) else None
    if number and not isinstance(error, ssl.SSLError) and number > 0:
        return os.strerror(number)
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__


def seconds_to_wait(header: str | None) -> float | None:
    """
    Read the header ``Retry-After``, which holds seconds or a date.
    """
    if header is None:
        return None
    with suppress(ValueError):
        return max(0.0, float(header))
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except DATA_ERRORS:
        return None
