"""
JSON text read strictly, and text that UTF-8 can hold.

JSON can write half of a character (a lone surrogate, as in ``"\\ud83d"``), which no
file in UTF-8 holds and on which tokenizers fail. One rule for it: a text from a file is
refused by its reader; what a running system, an endpoint or a ParlAI task says gets
U+FFFD for each half, since nobody could mend it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

HALF = re.compile('[\ud800-\udfff]')
# how JSON in UTF-8 spells halves; pairs of them, which are whole characters, too
ESCAPED_HALF = re.compile(r'\\u[dD][89a-fA-F]')
MOST_DIGITS = 300  # of a whole number; one of 309 digits is too large for a float


def half_character(text: str) -> bool:
    """
    True if a text holds half of a character.
    """
    return not text.isascii() and HALF.search(text) is not None


def without_half_characters(text: str) -> str:
    """
    Return a text with U+FFFD for each lone surrogate; two that form a pair become the
    character that they encode.
    """
    if not half_character(text):
        return text
    return text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')


def whole_characters(data: Any) -> Any:
    """
    Return JSON data with U+FFFD for each lone surrogate in its texts.
    """
    if isinstance(data, str):
        return without_half_characters(data)
    if isinstance(data, Mapping):
        return {
            without_half_characters(str(key)): whole_characters(value)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [whole_characters(value) for value in data]
    return data


def parse_json(text: str | bytes) -> Any:
    """
    Return the value of a JSON text from a file.

    :raises ValueError: for what is no JSON, is nested too deeply, or holds half of a
        character; the message names its key.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text)).removeprefix('\ufeff')
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError('it is nested too deeply') from None
    if ESCAPED_HALF.search(text):
        place = _place_of_half(value)
        if place is not None:
            raise ValueError(f'{place or "the text"} holds half a character')
    return value


def parse_own_json(data: bytes) -> Any:
    """
    Return the value of a JSON file that this package wrote: its numbers are finite, and
    texts may be anything that Python holds.

    :raises ValueError: for any other.
    """
    text = data.decode('utf-8')
    try:
        return json.loads(
            text, parse_constant=_refuse, parse_float=_finite, parse_int=_whole_number
        )
    except RecursionError:
        raise ValueError('it is nested too deeply') from None


def _place_of_half(value: Any, place: str = '') -> str | None:
    """
    Return where in JSON data the first half of a character is; `None` without one.
    """
    if isinstance(value, str):
        return place if half_character(value) else None
    if isinstance(value, dict):
        if any(half_character(key) for key in value):
            return f'a key of {place}' if place else 'a key'
        inner = ((f'{place}.{key}' if place else key, value[key]) for key in value)
    elif isinstance(value, list):
        inner = ((f'{place}[{i}]', item) for i, item in enumerate(value))
    else:
        return None
    places = (_place_of_half(item, where) for where, item in inner)
    return next((where for where in places if where is not None), None)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f'{constant} is no number of JSON')


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f'{text[:40]} is no finite number')
    return value


def _whole_number(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f'a number of {len(text)} digits')
    return int(text)
