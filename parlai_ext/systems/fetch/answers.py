"""
Asking a server that may be slow, absent, or send us elsewhere.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from parlai_ext.core.errors import UserError

CHUNK = 2**18


@dataclass(frozen=True)
class Limits:
    """
    How patient a download is.

    :param connect: seconds until there is a connection.
    :param stall: seconds without a byte, or with fewer than `least`.
    :param tries: attempts in a row that bring fewer than `least` bytes.
    :param pause: seconds before the second try; twice as many before each next.
    """

    connect: float = 15.0
    stall: float = 30.0
    least: int = 2**14
    tries: int = 5
    pause: float = 1.0
    redirects: int = 5


LIMITS = Limits()


class Trouble(Exception):
    """
    What may pass: worth another try.
    """


class NoContact(Trouble):
    """
    No connection came about.
    """


def answer(
    session: requests.Session, url: str, headers: Mapping[str, str], limits: Limits
) -> requests.Response:
    """
    Return the server's answer, its body unread, redirects followed where they are safe.

    :raises Trouble: when it may work another time.
    :raises UserError: when it will not.
    """
    at = url
    if urlsplit(at).scheme not in ('http', 'https'):
        raise UserError(f'{at} is no http or https address')
    for _ in range(limits.redirects + 1):
        response = _asked(session, at, headers, limits)
        if response.status_code not in (301, 302, 303, 307, 308):
            return response
        at = _next(at, response)
        response.close()
    raise UserError(f'{url} redirects more than {limits.redirects} times')


def _next(at: str, response: requests.Response) -> str:
    """
    Return where a redirect leads: to https, or elsewhere on the same http server.

    :raises UserError: when it leads anywhere else.
    """
    target = urljoin(at, response.headers.get('Location', ''))
    old, new = urlsplit(at), urlsplit(target)
    same = old.scheme == new.scheme == 'http' and old.netloc == new.netloc
    if new.scheme == 'https' or same:
        return target
    response.close()
    raise UserError(
        f'{at} redirects to {printable(target)}, which is not followed: only https is, '
        'and http on the same server'
    )


def _asked(
    session: requests.Session, url: str, headers: Mapping[str, str], limits: Limits
) -> requests.Response:
    """
    Ask once; headers that drip in have a time limit too.
    """
    found: queue.Queue[requests.Response | Exception] = queue.Queue()

    def ask() -> None:
        try:
            timeout = limits.connect, limits.stall
            found.put(
                session.get(
                    url,
                    headers=dict(headers),
                    timeout=timeout,
                    stream=True,
                    allow_redirects=False,
                )
            )
        except Exception as e:  # it belongs to the caller's thread
            found.put(e)

    threading.Thread(target=ask, daemon=True).start()
    try:
        response = found.get(timeout=limits.connect + 2 * limits.stall)
    except queue.Empty:
        raise Trouble('does not finish its headers') from None
    if isinstance(response, Exception):
        raise _in_our_words(url, response) from None
    return response


def _in_our_words(url: str, error: Exception) -> Exception:
    """
    Tell no connection, what may pass, and what will not from each other.
    """
    kinds = requests.exceptions
    if isinstance(error, kinds.SSLError):
        return UserError(f'{url}: its certificate is not accepted')
    reason = getattr(error.args[0] if error.args else None, 'reason', None)
    unmet = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ProxyError)
    if isinstance(error, kinds.ConnectTimeout) or isinstance(reason, unmet):
        return NoContact('cannot be reached')
    if isinstance(error, kinds.ConnectionError | kinds.Timeout):
        return Trouble('breaks the connection off, or does not answer')
    if isinstance(error, kinds.RequestException):
        return UserError(f'{url} cannot be asked for: {printable(str(error))}')
    return error


def chunks(response: requests.Response, limits: Limits) -> Iterator[bytes]:
    """
    Yield the body's bytes as they come, uncompressed by nobody.

    :raises Trouble: when it ends early, stalls or drips.
    """
    # read1 returns what there is; without it (urllib3 1) a drip is not seen as one
    read = getattr(response.raw, 'read1', response.raw.read)
    since, got = time.monotonic(), 0
    while True:
        try:
            chunk = read(CHUNK, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as e:
            raise Trouble(f'breaks off ({type(e).__name__})') from None
        if not chunk:
            return
        yield chunk
        got += len(chunk)
        if time.monotonic() - since > limits.stall:
            if got < limits.least:
                raise Trouble(f'sent {got} bytes in {limits.stall:g} seconds')
            since, got = time.monotonic(), 0


def printable(text: str | None) -> str:
    """
    Return a server's words fit for a terminal and a line.
    """
    return ''.join(c if c.isprintable() else '?' for c in text or '')[:200]
