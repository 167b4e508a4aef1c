"""
One request and its answer over HTTP.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http.cookiejar import DefaultCookiePolicy
from types import ModuleType
from typing import Any

import requests

from parlai_ext.core.errors import UserError
from parlai_ext.systems.remote import openai, plain
from parlai_ext.systems.remote.answers import Answer, Malformed, error_words, shortened
from parlai_ext.systems.remote.patience import (
    LONGEST_ASKED,
    Transient,
    asked_wait,
    is_transient,
)
from parlai_ext.systems.remote.settings import Settings

FORMATS: dict[str, ModuleType] = {'openai': openai, 'plain': plain}
HEADERS = {
    'Content-Type': 'application/json',
    'Accept': 'application/json',
    'User-Agent': 'parlai_ext',
}
CONNECT_TIMEOUT = 10.0
LARGEST = 10_000_000  # bytes of an answer
# an own entry of none keeps the environment's proxy away from this machine's servers
NO_PROXY = {'http': '', 'https': ''}


class Client:
    """
    Sends requests from any number of threads, each over a connection that stays open.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.format = FORMATS[settings.format]
        self._spare: list[requests.Session] = []

    def send(self, body: bytes) -> Answer:
        """
        Send a request once, and read its answer.

        :raises Transient: when another try may help.
        :raises UserError: when none will.
        """
        status, headers, raw = self._post(body)
        words = self.settings.without_key(raw.decode('utf-8-sig', 'replace'))
        try:
            data = json.loads(words)
        except (ValueError, RecursionError):
            data = None
        if 200 <= status < 300:
            return self._answer(data, words)
        if 300 <= status < 400:
            place = shortened(headers.get('Location', 'another place'))
            place = self.settings.without_key(place, beginnings=True)
            raise self._bad('remote_url', f'redirects to {place}; give that one')
        said = error_words(data) or shortened(words)
        what = self.settings.without_key(f'{status}: {said}', beginnings=True)
        if is_transient(status) and not openai.out_of_money(data):
            raise self._later(what, asked_wait(headers.get('Retry-After')))
        reason = openai.refusal(data)
        if reason is not None:
            return Answer(None, reason, None, 0, 0)
        raise self._refused(status, what)

    def _answer(self, data: Any, words: str) -> Answer:
        try:
            if data is None:
                raise Malformed(f'no JSON: {shortened(words)!r}')
            found = self.format.answer(data)
        except Malformed as error:
            # some gateways report errors with status 200
            what = error_words(data) or f'it answers in another format: {error}'
            raise Transient(what, answered=True) from None
        assert isinstance(found, Answer)
        return found

    def _post(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        session = self._session()
        timeout = self.settings.timeout
        deadline = time.monotonic() + timeout
        try:
            with session.post(
                self.settings.endpoint,
                data=body,
                headers=HEADERS,
                auth=self._sign,
                timeout=(min(CONNECT_TIMEOUT, timeout), timeout),
                allow_redirects=False,  # the key is for this address alone
                proxies=NO_PROXY if self.settings.local else None,
                stream=True,
            ) as response:
                return response.status_code, response.headers, _body(response, deadline)
        except requests.RequestException as error:
            raise self._trouble(error) from None
        finally:
            self._spare.append(session)

    def _session(self) -> requests.Session:
        try:
            return self._spare.pop()
        except IndexError:
            session = requests.Session()
            # a cookie would make replies depend on who was answered before
            session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
            return session

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """
        Add the key; doing so here keeps `requests` from taking one out of ~/.netrc.
        """
        key = self.settings.key()
        if key:
            request.headers['Authorization'] = f'Bearer {key}'
        return request

    def _trouble(self, error: requests.RequestException) -> Exception:
        """
        Return what an exception of `requests` means here.
        """
        if isinstance(error, requests.ConnectTimeout):
            return Transient('no connection in time')
        if isinstance(error, requests.Timeout):
            seconds = f'{self.settings.timeout:g} s'
            return Transient(f'no answer within {seconds}', lost=True)
        words = shortened(_root_words(error))
        if isinstance(error, requests.exceptions.SSLError) and 'CERTIFICATE' in words:
            return self._bad('remote_url', f'has no certificate to trust: {words}')
        if isinstance(error, ValueError):  # a URL or a header that is none
            return self._bad('remote_url', f'cannot be posted to: {words}')
        return Transient(words)

    def _later(self, what: str, asked: float | None) -> Exception:
        if asked is not None and asked > LONGEST_ASKED:
            return self._bad('remote_url', f'asks to wait {asked:.0f} s ({what})')
        return Transient(what, asked, answered=True)

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


def _body(response: requests.Response, deadline: float) -> bytes:
    """
    Return the body; the timeout of `requests` only says how long nothing may come.
    """
    parts, size = [], 0
    # a larger piece is waited for past the deadline, where bytes come one by one
    for part in response.iter_content(16):
        parts.append(part)
        size += len(part)
        if time.monotonic() > deadline:
            raise requests.Timeout
        if size > LARGEST:
            raise requests.exceptions.ContentDecodingError('an answer without end')
    return b''.join(parts)


def _root_words(error: BaseException) -> str:
    """
    Return the words of the exception that was first, as the system says them.
    """
    while error.__context__ is not None:
        error = error.__context__
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__
