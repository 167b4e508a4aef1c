"""
What a remote system can be told: every option with its reader, once for the command
line and for rosters alike.
"""

from __future__ import annotations

import ast
import json
import math
import re
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FORMATS = ('openai', 'plain')
# names as letters only; max_tokens and eos_token are none of them
SECRET = re.compile(
    r'.*(apikey|accesskey|secretkey|privatekey|subscriptionkey|authorization|password'
    r'|passwd|passphrase|secret|credentials?|cookie)|key|auth|bearer'
    r'|(x|hf|api|auth|access|bearer|refresh|session|security|id)*token'
)


@dataclass(frozen=True)
class Option:
    """
    An option: how its value is read, what it is for, and what holds without it.
    """

    read: Callable[[Any], Any]
    help: str
    default: Any = None


def text(value: Any) -> str:
    """
    Read a text that is not blank.
    """
    if not str(value).strip():
        raise ArgumentTypeError('empty; a value is expected')
    return str(value).strip()


def number(least: float = 0.0, open_end: bool = False) -> Callable[[Any], float]:
    """
    Return a reader of numbers from ``least`` on (above it when `open_end`).
    """

    def read(value: Any) -> float:
        try:
            found = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            found = math.nan
        if not math.isfinite(found) or found < least or (open_end and found == least):
            above = 'above' if open_end else 'from'
            raise ArgumentTypeError(f'{value!r} is not a number {above} {least:g}')
        return found

    return read


def whole(least: int | None = None) -> Callable[[Any], int]:
    """
    Return a reader of whole numbers from ``least`` on.
    """

    def read(value: Any) -> int:
        try:
            found = None if isinstance(value, bool | float) else int(value)
        except (TypeError, ValueError):
            found = None
        if found is None or (least is not None and found < least):
            hint = '' if least is None else f' from {least}'
            raise ArgumentTypeError(f'{value!r} is not a whole number{hint}')
        return found

    return read


def truth(value: Any) -> bool:
    """
    Read true or false.
    """
    known = {'true': True, 'yes': True, '1': True, 't': True, 'y': True}
    known |= {'false': False, 'no': False, '0': False, 'f': False, 'n': False}
    if str(value).lower() not in known:
        raise ArgumentTypeError(f'{value!r} is neither true nor false')
    return known[str(value).lower()]


def wire_format(value: Any) -> str:
    """
    Read the name of a format.
    """
    if value not in FORMATS:
        raise ArgumentTypeError(f'{value!r} is none of {", ".join(FORMATS)}')
    return str(value)


def json_object(value: Any) -> dict[str, Any]:
    """
    Read a JSON object; a mapping in a roster file comes as Python writes it.
    """
    found = value
    if isinstance(value, str):
        try:
            found = json.loads(value)
        except ValueError:
            try:
                found = ast.literal_eval(value)
            except (ValueError, SyntaxError, TypeError, MemoryError):
                found = None
    if not isinstance(found, Mapping) or not all(isinstance(k, str) for k in found):
        raise ArgumentTypeError('a JSON object is expected, like {"top_k": 5}')
    try:
        json.dumps(found, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError(f'it is no JSON: {error}') from None
    secret = next(secrets(found), None)
    if secret is not None:
        raise ArgumentTypeError(
            f'{secret} would be written to the run folder; put it into an environment '
            'variable and name that in remote_key_env'
        )
    return dict(found)


def secrets(found: Any) -> Iterator[str]:
    """
    Yield the names in JSON that say that a secret follows.
    """
    if isinstance(found, Mapping):
        for key, value in found.items():
            bare = re.sub(r'[^a-z]', '', str(key).lower())
            if SECRET.fullmatch(bare) and value is not None:
                yield str(key)
            yield from secrets(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from secrets(value)


OPTIONS = {
    'remote_url': Option(text, 'where the system is: http(s)://… (openai: up to /v1)'),
    'remote_format': Option(
        wire_format,
        'openai: chat completions; plain: parlai_ext/systems/remote/plain.py',
        'openai',
    ),
    'remote_model': Option(text, "the model's name, as the endpoint knows it"),
    'remote_dated_model': Option(
        text, 'refuse any answer of a model that calls itself otherwise'
    ),
    'remote_key_env': Option(
        text,
        'NAME of the environment variable that holds the key; it is sent as Bearer',
    ),
    'remote_insecure': Option(
        truth, 'send the key over http:// to another machine', False
    ),
    'remote_temperature': Option(
        number(), "0 is greedy; not given: the endpoint's own choice"
    ),
    'remote_top_p': Option(number(), 'nucleus sampling'),
    'remote_seed': Option(whole(), 'sent with every request'),
    'remote_extra': Option(
        json_object, 'JSON object merged into each request; null takes a field out', {}
    ),
    'remote_concurrency': Option(whole(1), 'requests at the same time', 8),
    'remote_timeout': Option(number(0, True), 'seconds to wait for an answer', 60.0),
    'remote_retries': Option(whole(0), 'how often to try again', 5),
    'remote_rate': Option(number(0, True), 'most requests a minute'),
    'remote_token_rate': Option(number(0, True), 'most tokens a minute, estimated'),
    'remote_cache': Option(
        text,
        'file that keeps every answer, or none '
        '(default: DATAPATH/parlai_ext/remote_cache.sqlite)',
    ),
    'remote_price_prompt': Option(number(), 'US dollars for a million prompt tokens'),
    'remote_price_completion': Option(
        number(), 'US dollars for a million completion tokens'
    ),
    'max_cost': Option(
        number(), 'US dollars that one command may spend on this system'
    ),
}
