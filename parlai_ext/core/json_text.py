"""
JSON text read strictly, and text that UTF-8 can hold.

Every JSON text that comes from outside of this process is read here. Its numbers are
finite, since a NaN compares with nothing and so changes an order; no key is there
twice, since the first value would be lost without a word; and its size and depth are
bounded before it is parsed.

JSON can write half of a character (a lone surrogate, as in ``"\\ud83d"``), which no
file in UTF-8 holds and on which tokenizers fail. One rule for it: a text from a file is
refused by its reader; what a running system, an endpoint or a ParlAI task says gets
U+FFFD for each half, since nobody could mend it.
"""

import contextlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

# what JSON can hold, with a tuple for a list, too; a value is narrowed before its use
if TYPE_CHECKING:
    JsonValue = (
        None
        | bool
        | int
        | float
        | str
        | Sequence['JsonValue']
        | Mapping[str, 'JsonValue']
    )
else:  # in other modules `typing.get_type_hints` cannot evaluate what names itself
    JsonValue = Any
JsonObject = Mapping[str, JsonValue]
JsonDict = dict[str, JsonValue]  # one that is being made or changed
HALF = re.compile('[\ud800-\udfff]')
# how JSON in UTF-8 spells halves; pairs of them, which are whole characters, too
ESCAPED_HALF = re.compile(r'\\u[dD][89a-fA-F]')
MOST_DIGITS = 300  # of a whole number; one of 309 digits is too large for a float
MOST_CHARACTERS = 2**29  # of one text; its values take some ten times as much memory
DEEPEST = 100  # objects and lists in one another
_AS_BRACKETS = bytes.maketrans(b'{}', b'[]')
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"\\'))
_OPEN = ord('[')


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


def changed_texts(
    data: Any, change: Callable[[str], str], change_key: Callable[[str], str] = str
) -> Any:
    """
    Return JSON data with its texts, and its keys, changed by these functions.
    """
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {
            change_key(str(key)): changed_texts(value, change, change_key)
            for key, value in data.items()
        }
    if isinstance(data, list | tuple):
        return [changed_texts(value, change, change_key) for value in data]
    return data


def whole_characters(data: Any) -> Any:
    """
    Return JSON data with U+FFFD for each lone surrogate in its texts.
    """
    return changed_texts(data, without_half_characters, without_half_characters)


def parse_json(text: str | bytes, *, any_number: bool = False) -> Any:
    """
    Return the value of a JSON text from a file.

    :param any_number: read NaN and Infinity too, as Python's `json` does:
        configurations of Hugging Face models hold them.
    :raises ValueError: for what is no JSON or too large, is nested too deeply, holds a
        key twice, a number that is not finite, or half of a character; the message
        names the key.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text)).removeprefix('\ufeff')
    _check_text(text)
    value = (_ANY_NUMBER if any_number else _STRICT).decode(text)
    if '\\u' in text and ESCAPED_HALF.search(text):
        place = _place_of_half(value)
        if place is not None:
            raise ValueError(f'{place or "the text"} holds half a character')
    return value


def parse_own_json(text: str | bytes, *, is_intact: bool = False) -> Any:
    """
    Return the value of JSON that this package wrote, or that a program says, where
    texts may be anything that Python holds; all else is as in `parse_json`.

    :param is_intact: a checksum shows that this package wrote it, so no key is there
        twice, and none is looked for, which would take a third of the time.
    :raises ValueError: for any other.
    """
    if isinstance(text, bytes):
        text = text.decode('utf-8')
    _check_text(text)
    return (_INTACT if is_intact else _STRICT).decode(text)


def parse_json_values(text: str) -> Iterator[Any]:
    """
    Yield the JSON values that follow one another in a text, as `parse_json` reads them.

    :raises ValueError: for anything else between or in them.
    """
    _check_text(text)
    start = 0
    while start < len(text):
        if text[start].isspace():
            start += 1
            continue
        value, start = _STRICT.raw_decode(text, start)
        yield value


def first_object(text: str) -> JsonDict | None:
    """
    Return the first JSON object among the words of a text; `None` without one.
    """
    with contextlib.suppress(ValueError):
        _check_text(text)
        for match in re.finditer(r'\{', text):
            with contextlib.suppress(ValueError, RecursionError):
                return _STRICT.raw_decode(text, match.start())[0]
    return None


def _check_text(text: str) -> None:
    """
    Refuse a text that is too large, or nested too deeply, before it is parsed.

    Where there are more brackets than levels, only quotation marks and brackets stay;
    those inside strings go with the strings. Two marks side by side hold nothing and
    are dropped first. An innermost pair of brackets is taken out once for each level.
    """
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f'more than {MOST_CHARACTERS:,} characters')
    if text.count('[') + text.count('{') <= DEEPEST:
        return
    marks = text.encode('utf-8', 'replace').translate(_AS_BRACKETS, _NO_MARKS)
    if b'\\' in marks:
        marks = marks.replace(b'\\\\', b'').replace(b'\\"', b'')
    marks = marks.replace(b'""', b'')
    marks = b''.join(marks.split(b'"')[::2])
    left = marks
    for _ in range(DEEPEST):
        left = left.replace(b'[]', b'')
    if left:  # too deep, or never closed
        depths = accumulate(1 if mark == _OPEN else -1 for mark in marks)
        if max(depths) > DEEPEST:
            raise ValueError('it is nested too deeply')


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


def _unique_keys(pairs: list[tuple[str, Any]]) -> JsonDict:
    """
    Return the object of these keys and values.
    """
    made = dict(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f'the key {counts.most_common(1)[0][0]!r:.80} is there twice')
    return made


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f'{text[:40]} is no finite number')
    return value


def _whole_number(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f'a number of {len(text)} digits')
    return int(text)


_decoder = partial(
    json.JSONDecoder,
    parse_constant=_finite,
    parse_float=_finite,
    parse_int=_whole_number,
)
_INTACT = _decoder()
_STRICT = _decoder(object_pairs_hook=_unique_keys)
_ANY_NUMBER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_int=_whole_number)
