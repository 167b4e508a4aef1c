"""
One request and its reply over HTTP, with one deadline for both.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.cookiejar import CookieJar, DefaultCookiePolicy
from types import ModuleType

import httpx2

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json, whole_characters
from parlai_ext.systems.remote import openai, plain
from parlai_ext.systems.remote.event_loop import certificates
from parlai_ext.systems.remote.replies import (
    Malformed,
    RemoteReply,
    error_words,
    shortened,
)
from parlai_ext.systems.remote.settings import Settings

FORMATS: dict[str, ModuleType] = {'openai': openai, 'plain': plain}
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
    :param answered: something came back, of no use.
    """

    what: str
    retry_after: float | None = None
    lost: bool = False
    answered: bool = False

    def __str__(self) -> str:
        return self.what


def is_transient(status: int) -> bool:
    """
    True if a status means that another try may help.
    """
    return status in LATER or status >= 500


class Client:
    """
    Sends requests, each over a connection that stays open, from one event loop.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.format = FORMATS[settings.format]
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

    async def send(self, body: bytes) -> RemoteReply:
        """
        Send a request once, and read the reply.

        :raises Transient: when another try may help.
        :raises UserError: when none will.
        """
        status, headers, raw = await self._post(body)
        words = self.settings.without_key(raw.decode('utf-8-sig', 'replace'))
        try:
            data, problem = whole_characters(parse_own_json(words)), ''
        except ValueError as error:
            data, problem = None, f'no JSON ({error}): {shortened(words)!r}'
        if 200 <= status < 300:
            try:
                if problem:
                    raise Malformed(problem)
                reply: RemoteReply = self.format.reply(data)
            except Malformed as error:
                # some gateways report errors with status 200
                what = error_words(data) or f'it answers in another format: {error}'
                raise Transient(what, answered=True) from None
            return reply
        if 300 <= status < 400:
            place = shortened(headers.get('Location', 'another place'))
            place = self.settings.without_key(place, beginnings=True)
            raise self._bad('remote_url', f'redirects to {place}; give that one')
        reason = error_words(data) or shortened(words)
        what = self.settings.without_key(f'{status}: {reason}', beginnings=True)
        if is_transient(status) and not openai.out_of_money(data):
            seconds = seconds_to_wait(headers.get('Retry-After'))
            if seconds is not None and seconds > LONGEST_WAIT:
                raise self._bad('remote_url', f'asks to wait {seconds:.0f} s ({what})')
            raise Transient(what, seconds, answered=True)
        refusal = openai.refusal(data)
        if refusal is not None:
            return RemoteReply(None, refusal, prompt_tokens=0, completion_tokens=0)
        raise self._refused(status, what)

    async def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        url, seconds = self.settings.posted_url, self.settings.timeout
        key = self.settings.key()
        headers = {'Authorization': f'Bearer {key}'} if key else {}
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
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise self._trouble(error) from None

    def _trouble(self, error: Exception) -> Exception:
        """
        Return what an exception of the HTTP library means here.
        """
        if isinstance(error, httpx2.ConnectTimeout):
            return Transient('no connection in time')
        words = self.settings.without_key(shortened(_root_words(error)))
        if 'CERTIFICATE' in words:
            return self._bad('remote_url', f'has no certificate to trust: {words}')
        # a URL or a header that is none
        if isinstance(error, httpx2.InvalidURL | httpx2.LocalProtocolError):
            return self._bad('remote_url', f'cannot be posted to: {words}')
        return Transient(words)

    def _refused(self, status: int, what: str) -> UserError:
        """
        Return the line for a status that no second try will change.
        """
        model = self.settings.model
        if status in (401, 403):
            key = f'${self.settings.key_name}' if self.settings.key_env else 'no key'
            return self._bad('remote_key_env', f'does not accept {key} ({what})')
        if status == 404 and model and model in what:
            return self._bad('remote_model', f'does not know {model} ({what})')
        return self._bad('remote_url', f'refuses the request ({what})')

    def _bad(self, option: str, what: str) -> UserError:
        return UserError(f'{option}: {self.settings.endpoint} {what}')


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
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
