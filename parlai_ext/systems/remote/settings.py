"""
The options of a remote system, read and checked at the door.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from argparse import ArgumentTypeError
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qsl, urlsplit, urlunsplit

from parlai_ext.core.errors import UserError
from parlai_ext.systems.chat.messages import REPLY_MAX_TOKENS
from parlai_ext.systems.remote.options import OPTIONS, whole

CACHE = ('parlai_ext', 'remote_cache.sqlite')  # below ParlAI's data folder
VARIABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
SECRET = re.compile(r'key|token|secret|password|signature|^sig$|auth', re.IGNORECASE)
# shorter keys are words ("EMPTY", "ollama") that a reply or a model's name may hold
SHORTEST_SECRET = 10


@dataclass(frozen=True)
class Settings:
    """
    Where the system is, what it is asked, and how patiently.

    `extra` is JSON text, so that settings can be compared and hashed. The key is no
    part of them: it stays in the environment.
    """

    url: str
    format: str
    model: str | None
    dated_model: str | None
    key_env: str | None
    insecure: bool
    temperature: float | None
    top_p: float | None
    seed: int | None
    extra: str
    concurrency: int
    timeout: float
    retries: int
    rate: float | None
    token_rate: float | None
    cache: str | None
    price_prompt: float | None
    price_completion: float | None
    max_cost: float | None
    reply_max_tokens: int

    @classmethod
    def of(cls, opt: Mapping[str, Any]) -> Settings:
        """
        Read a system's options, whether a parser has seen them or not.

        :raises UserError: ``option: what is wrong; what would be right``.
        """
        found = {name: _read(opt, name) for name in OPTIONS}
        given = {name.removeprefix('remote_'): value for name, value in found.items()}
        given['extra'] = json.dumps(given['extra'], sort_keys=True)
        given['cache'] = _cache(given['cache'], opt.get('datapath'))
        given['reply_max_tokens'] = _reply_max_tokens(opt)
        settings = cls(**given)
        settings.check()
        return settings

    @property
    def endpoint(self) -> str:
        """
        The URL that is posted to.
        """
        if self.format == 'plain':
            return self.url
        parts = urlsplit(self.url)
        path = parts.path.rstrip('/')
        if not path.endswith('/chat/completions'):
            path += '/chat/completions'
        return urlunsplit(parts._replace(path=path))

    @property
    def local(self) -> bool:
        """
        Whether the system runs on this machine.
        """
        host = urlsplit(self.url).hostname or ''
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == 'localhost' or host.endswith('.localhost')

    def check(self) -> None:
        """
        Refuse what cannot be meant, or would not be safe.
        """
        parts = _checked_url(self.url)
        if self.format == 'openai' and not self.model:
            raise UserError(
                "remote_model: not given; the format openai needs the model's name"
            )
        no_price = None in (self.price_prompt, self.price_completion)
        if self.max_cost is not None and no_price:
            raise UserError(
                'max_cost: needs remote_price_prompt and remote_price_completion, '
                'US dollars for a million tokens'
            )
        if self.key() and parts.scheme == 'http' and not self.local:
            if self.insecure:
                return
            raise UserError(
                'remote_url: the key would go over http:// to another machine, for '
                'all on the way to read; give https://, or remote_insecure: true'
            )

    def key(self) -> str | None:
        """
        Return the key, read now; it is kept nowhere.

        :raises UserError: when there is none; what looks like a key is not repeated.
        """
        if self.key_env is None:
            return None
        if not VARIABLE.fullmatch(self.key_env):
            raise UserError(
                'remote_key_env: the NAME of an environment variable is expected, '
                'not the key itself'
            )
        # a name in small letters may be a key that was put here by mistake
        name = f'${self.key_env}' if self.key_env.isupper() else 'the variable'
        key = os.environ.get(self.key_env, '').strip()
        if not key:
            raise UserError(
                f'remote_key_env: {name} is not set; `export {self.key_name}=…` first'
            )
        if not key.isascii() or not key.isprintable() or ' ' in key:
            raise UserError(f'remote_key_env: {name} holds no key: one ASCII word')
        return key

    @property
    def key_name(self) -> str:
        """
        The name of the key's variable, as messages may show it.
        """
        shown = self.key_env is not None and self.key_env.isupper()
        return str(self.key_env) if shown else 'NAME'

    def without_key(self, words: str, beginnings: bool = False) -> str:
        """
        Return an endpoint's words with the key taken out.

        :param beginnings: take out all that begins like it, too ("sk-ab***yz").
        """
        key = self.key()
        if not key or len(key) < SHORTEST_SECRET:
            return words
        words = words.replace(key, f'${self.key_name}')
        if beginnings:
            start = re.escape(key[: SHORTEST_SECRET // 2])
            words = re.sub(rf'{start}[^\s"\'<>]*', f'${self.key_name}', words)
        return words


def _read(opt: Mapping[str, Any], name: str) -> Any:
    option, value = OPTIONS[name], opt.get(name)
    if value is None:
        return option.default
    try:
        return option.read(value)
    except ArgumentTypeError as error:
        raise UserError(f'{name}: {error}') from None


def _cache(cache: str | None, datapath: Any) -> str | None:
    if cache is not None:
        return None if cache.lower() == 'none' else cache
    return os.path.join(str(datapath), *CACHE) if datapath else None


def _reply_max_tokens(opt: Mapping[str, Any]) -> int:
    value = opt.get('reply_max_tokens')
    try:
        return REPLY_MAX_TOKENS if value is None else whole(1)(value)
    except ArgumentTypeError as error:
        raise UserError(f'reply_max_tokens: {error}') from None


def _checked_url(url: str | None) -> SplitResult:
    """
    Return the parts of a URL that may be posted to.
    """
    if not url:
        raise UserError('remote_url: not given; http://… or https://… is needed')
    try:
        parts = urlsplit(url)
        known = parts.scheme in ('http', 'https') and parts.hostname
        _ = parts.port  # raises when it is none
    except ValueError:
        known = False
    if not known:
        shown = url if '@' not in url else '…'
        raise UserError(f'remote_url: {shown} is no address; http(s)://host[:port]/…')
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.username is not None or any(SECRET.search(name) for name in names):
        raise UserError(
            'remote_url: there is a key or a password in it, and it is written to the '
            'run folder; name a variable in remote_key_env'
        )
    return parts
