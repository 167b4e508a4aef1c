"""
The options of a remote system, declared once and checked when they are read, and its
reply, whatever its format.
"""

import functools
import ipaddress
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from parlai_ext.core import (
    DATA_ERRORS,
    SHORTEST_SECRET,
    JsonObject,
    UserError,
    frozen,
    json_object,
    known_values,
    name_secret,
    option,
    optional,
    options_from_opt,
    options_of,
    read_truth,
    shortened,
)
from parlai_ext.isolation.fork_server import is_confined
from parlai_ext.systems.chat.messages import REPLY_MAX_TOKENS, Alternatives, ChatReply

UNTOLD = '(untold)'  # the dated name of a model that gives itself none
CACHE = ('parlai_ext', 'remote_cache.sqlite')  # below ParlAI's data folder
VARIABLE = re.compile(r'[A-Za-z_][A-Za-z0-9_]*')
SECRET_IN_URL = re.compile(
    r'key|token|secret|password|signature|^sig$|auth', re.IGNORECASE
)
# names as letters only; max_tokens and eos_token are none of them
SECRET_IN_JSON = re.compile(
    r'.*(apikey|accesskey|secretkey|privatekey|subscriptionkey|authorization|password'
    r'|passwd|passphrase|secret|credentials?|cookie)|key|auth|bearer'
    r'|(x|hf|api|auth|access|bearer|refresh|session|security|id)*token'
)

# where a system is, how fast it answers and what it may cost: no part of its identity
_place_option = functools.partial(option, signed=False)


@frozen
class Settings:
    """
    Where a remote system is, what it is asked, and how patiently.

    The key is no part of the settings: it stays in the environment.
    """

    title = 'Remote Agent'
    prefix = 'remote'
    url: str = _place_option(
        '',
        help='where the system is: http(s)://… (openai: up to /v1); $NAME in it stands '
        'for the key in remote_key_env',
    )
    format: str = option(
        'openai',
        choices=('openai', 'plain'),
        help='openai: chat completions; plain: parlai_ext/systems/remote/plain.py',
    )
    model: str | None = optional(help="the model's name, as the endpoint knows it")
    dated_model: str | None = _place_option(
        None, help='refuse any answer of a model that calls itself otherwise'
    )
    key_env: str | None = _place_option(
        None, help='NAME of the environment variable that holds the key, sent as Bearer'
    )
    insecure: bool = _place_option(
        False, read=read_truth, help='send the key over http:// to another machine'
    )
    temperature: float | None = optional(
        low=0, help="0 is greedy; not given: the endpoint's own choice"
    )
    top_p: float | None = optional(low=0, help='nucleus sampling')
    seed: int | None = optional(help='sent with every request')
    extra: Mapping[str, Any] | None = optional(
        read=json_object,
        help='JSON object merged into each request; null takes a field out',
    )
    concurrency: int = _place_option(8, low=1, help='requests at the same time')
    timeout: float = _place_option(60.0, above=0, help='seconds to wait for an answer')
    retries: int = _place_option(5, low=0, help='how often to try again')
    rate: float | None = _place_option(None, above=0, help='most requests a minute')
    token_rate: float | None = _place_option(
        None, above=0, help='most tokens a minute, estimated'
    )
    cache: str | None = _place_option(
        None,
        help='file that keeps every answer, or none '
        '(default: DATAPATH/parlai_ext/remote_cache.sqlite)',
    )
    price_prompt: float | None = _place_option(
        None, low=0, help='US dollars for a million prompt tokens'
    )
    price_completion: float | None = _place_option(
        None, low=0, help='US dollars for a million completion tokens'
    )
    max_cost: float | None = _place_option(
        None,
        low=0,
        flag='--max-cost',
        help='US dollars that one command may spend on this system',
    )
    reply_max_tokens: int = option(
        REPLY_MAX_TOKENS,
        low=1,
        flag='--reply-max-tokens',
        help='a reply ends after so many tokens',
    )

    @classmethod
    def from_options(cls, opt: JsonObject) -> 'Settings':
        """
        Read a system's options, whether a parser has seen them or not.

        :raises UserError: ``option: what is wrong; what would be right``.
        """
        variable = str(opt.get('remote_key_env') or '').strip()
        if VARIABLE.fullmatch(variable):
            name_secret(variable)
        given = {key: v.strip() if isinstance(v, str) else v for key, v in opt.items()}
        for declared in options_of(cls).values():
            if given.get(declared.dest()) == '' != declared.default:
                raise UserError(f'{declared.dest()}: empty; a value is expected')
        place = opt.get('datapath')
        if place and given.get('remote_cache') is None:
            given['remote_cache'] = os.path.join(str(place), *CACHE)
        settings = options_from_opt(cls, given)
        if str(settings.cache).lower() == 'none':
            settings = replace(settings, cache=None)
        key = settings.key()
        if key:
            # `$NAME` in place of a long key anywhere in the URL; of a short one, where
            # it is a whole part of the path
            place = re.escape(key)
            if len(key) < SHORTEST_SECRET:
                place = rf'(?<=[^:/]/){place}(?=[/?#]|$)'
            url = re.sub(place, f'${settings.key_env}', settings.url)
            settings = replace(settings, url=url)
        settings.check()
        return settings

    @property
    def endpoint(self) -> str:
        """
        The URL that is posted to, ``$NAME`` in place of the key.
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
        True if the system runs on this machine.
        """
        host = urlsplit(self.url).hostname or ''
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == 'localhost' or host.endswith('.localhost')

    def request_body(self, **fields: Any) -> JsonObject:
        """
        Return the body of a request: these fields, those of every format, and
        ``remote_extra`` over them. What is `None` is left out.
        """
        body = {
            'model': self.model,
            'max_tokens': self.reply_max_tokens,
            'temperature': self.temperature,
            'top_p': self.top_p,
            'seed': self.seed,
            **fields,
            **(self.extra or {}),
        }
        return known_values(body)

    def check(self) -> None:
        """
        Refuse what no endpoint can be asked, or what would not be safe.
        """
        parts = _checked_url(self.url)
        try:
            json.dumps(self.extra, allow_nan=False)
        except DATA_ERRORS as error:
            raise UserError(f'remote_extra: it is no JSON: {error}') from None
        for secret in _secret_names(self.extra):
            raise UserError(
                f'remote_extra: {secret} would be written to the run folder; put it '
                'into an environment variable and name that in remote_key_env'
            )
        self._check_for_key()
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
        is_open = parts.scheme == 'http' and not (self.local or self.insecure)
        if self.key() and is_open:
            raise UserError(
                'remote_url: the key would go over http:// to another machine, for '
                'all on the way to read; give https://, or remote_insecure: true'
            )

    def _check_for_key(self) -> None:
        """
        Refuse options that hold the key itself: they are written to the run folder.
        """
        key = self.key() or ''
        if len(key) >= SHORTEST_SECRET:
            for field in fields(self):
                words = json.dumps(getattr(self, field.name), ensure_ascii=False)
                if key in words or key in unquote(words):
                    raise UserError(
                        f'{self.prefix}_{field.name}: it holds the key of '
                        f'${self.key_name}, and is written to the run folder; leave '
                        'it out there'
                    )

    def key(self) -> str | None:
        """
        Return the key, read from the environment now; it is stored nowhere.

        :raises UserError: when there is none; what looks like a key is not repeated.
        """
        if self.key_env is None:
            return None
        if not VARIABLE.fullmatch(self.key_env):
            raise UserError(
                'remote_key_env: the NAME of an environment variable is expected, '
                'not the key itself'
            )
        name, key = self.key_name, os.environ.get(self.key_env, '').strip()
        if not key and is_confined():
            raise UserError(
                f'remote_key_env: ${name} is kept from what is not trusted, such as a '
                'safety layer with a datapath; --datapath of the command would do'
            )
        if not key:
            raise UserError(f'remote_key_env: ${name} is not set; `export {name}=…`')
        if not key.isascii() or not key.isprintable() or ' ' in key:
            raise UserError(f'remote_key_env: ${name} holds no key: one ASCII word')
        return key

    @property
    def key_name(self) -> str:
        """
        The name of the key's variable, as messages may show it: in small letters it may
        be a key that was put there by mistake.
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


def _checked_url(url: str) -> SplitResult:
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
    if parts.username is not None or any(map(SECRET_IN_URL.search, names)):
        raise UserError(
            'remote_url: there is a key or a password in it, and it is written to the '
            'run folder; name a variable in remote_key_env'
        )
    return parts


def _secret_names(value: Any) -> Iterator[str]:
    """
    Yield the names in a JSON value that stand before a secret.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            letters = re.sub(r'[^a-z]', '', str(key).lower())
            if SECRET_IN_JSON.fullmatch(letters) and inner is not None:
                yield str(key)
            yield from _secret_names(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secret_names(inner)


# --- the reply of an endpoint, whatever its format ------------------------------------

CHARACTERS_A_TOKEN = 4  # of English text, for endpoints that do not count


@frozen
class RemoteReply(ChatReply):
    """
    A chat model's reply with the name that the model gives itself (`None`: untold), the
    numbers of tokens (`None` when the endpoint does not count), and whether it ended
    because it was as long as it may be.
    """

    model: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    is_cut: bool = False


def read_answer(
    data: Any,
    text: Any,
    reason: str | None,
    alternatives: Alternatives | None = None,
    is_cut: bool = False,
) -> RemoteReply:
    """
    Return the reply of an answer that holds this text, with the ``model`` and ``usage``
    that the answer tells.

    :raises ValueError: for a text that is none.
    """
    if not isinstance(text, str | None):
        raise ValueError(f'the text is {type(text).__name__}, not a string')
    model, usage = data.get('model'), data.get('usage')
    counts = [
        usage.get(name) if isinstance(usage, dict) else None
        for name in ('prompt_tokens', 'completion_tokens')
    ]
    prompt, completion = (n if type(n) is int and n >= 0 else None for n in counts)
    named = model if isinstance(model, str) and model.strip() else None
    return RemoteReply(text, reason, alternatives, named, prompt, completion, is_cut)


def error_words(data: Any) -> str | None:
    """
    Return what an error says, in either format, as far as it can be told.
    """
    error = data.get('error') if isinstance(data, dict) else None
    error = error.get('message') if isinstance(error, dict) else error
    return shortened(error) if isinstance(error, str) and error.strip() else None


def estimated_tokens(text: str) -> int:
    """
    Return an estimate of a text's tokens: a quarter of its characters, rounded up.
    """
    return -(-len(text) // CHARACTERS_A_TOKEN)
