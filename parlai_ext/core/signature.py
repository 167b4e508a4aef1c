"""
The one-line string that makes a number reproducible, and where two of them, or any two
values of JSON data, differ.

It has two parts, how dialogues arise and how they are scored, and for a tournament a
third, how they are rated. Targets belong to none of them: runs with the same signature
compare.
"""

import json
from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any

from parlai_ext.core.nouns import content_id

# between the parts: how dialogues arise, how they are scored, how they are rated
PART_SEPARATOR = ' || '
GIVEN_JUDGED = '|given:judged'  # ends that of scores which include given utterances


def signature_line(fields: Mapping[str, Any]) -> str:
    """
    Return ``name:value|name:value|…`` in the order given; long values are hashed.
    """
    return '|'.join(f'{name}:{_short(value)}' for name, value in fields.items())


def scorer_name(signature: str) -> str:
    """
    Return the name of a scorer, with which its signature begins.
    """
    return signature.partition('|')[0].removeprefix('scorer:')


def signature_differences(old: str, new: str) -> list[str]:
    """
    Return ``key: old → new`` for each field in which two signatures differ.
    """
    before, after = (
        {key: value for key, _, value in (p.partition(':') for p in line.split('|'))}
        for line in (old, new)
    )
    return [f'{key}: {a} → {b}' for key, a, b in differences(before, after)]


def _short(value: Any) -> str:
    """
    Return a value as one word: containers and long texts by their hash.
    """
    if isinstance(value, Mapping | list | tuple) or len(str(value)) > 60:
        return '#' + content_id(value)[:10]
    return str(value).replace('|', '/').replace(':', '=').replace('\n', ' ')


CLOSE = 1e-9  # numbers may differ by so much of themselves, for other libraries' sums
LONGEST = 60  # characters of a value that are shown


class Absent:
    """
    What stands for a value that is not there.
    """

    def __format__(self, spec: str) -> str:
        return '(absent)'


ABSENT = Absent()


def differences(
    old: Any, new: Any, where: str = '', tolerance: float | None = None
) -> Iterator[tuple[str, Any, Any]]:
    """
    Yield each place at which two values differ, with both values there. A place in a
    list of standings is named by the system.

    :param tolerance: by so much numbers may differ, and by `CLOSE` of themselves;
        `None`: not at all.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            inner = f'{where}.{key}' if where else str(key)
            pair = old.get(key, ABSENT), new.get(key, ABSENT)
            yield from differences(*pair, inner, tolerance)
    elif isinstance(old, list) and isinstance(new, list):
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            name = a.get('system', i) if isinstance(a, Mapping) else i
            yield from differences(a, b, f'{where}[{name}]', tolerance)
        if len(old) != len(new):
            yield f'length of {where}', len(old), len(new)
    elif old != new:
        numbers = {type(old), type(new)} <= {int, float} and tolerance is not None
        if not (numbers and isclose(old, new, rel_tol=CLOSE, abs_tol=tolerance or 0)):
            yield where, old, new


def change_lines(old: Any, new: Any, where: str = '') -> list[str]:
    """
    Return ``key: old → new`` for each place at which two values differ.
    """
    return [
        f'{key if key.isprintable() else repr(key)}: {_shown(a)} → {_shown(b)}'
        for key, a, b in differences(old, new, where)
    ]


def _shown(value: Any) -> str:
    """
    Return a value on one line; a long one is cut.
    """
    text = f'{value}'
    if value is not ABSENT:
        text = json.dumps(value, ensure_ascii=not text.isprintable())
    if len(text) <= LONGEST:
        return text
    return f'{text[: LONGEST - 12]}… #{content_id(value)[:8]}'
