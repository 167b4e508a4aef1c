"""
JSON, one record a line, and what is said of a record that is not as it should be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from parlai_ext.data.source_dialogue import NOT_UTF8, Source, brief, is_utf8

NEAR = 20  # records


class Misshapen(Exception):
    """
    A record lacks something; the words say what it should be.
    """

    def __init__(self, what: str, line: int = 1):
        super().__init__(what)
        self.line = line


def records(source: Source) -> Iterator[tuple[int, Mapping[str, Any] | Misshapen]]:
    """
    Yield each line's number and its record, or what is wrong with it.
    """
    for number, line in enumerate(source.lines, 1):
        if line.strip():
            yield number, _record(line)


def _record(line: str) -> Mapping[str, Any] | Misshapen:
    if not is_utf8(line):
        return Misshapen(NOT_UTF8)
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Misshapen(f'not JSON ({" ".join(str(error).split())[:60]})')
    if not isinstance(value, dict):
        return Misshapen(f'a JSON object is expected, not {brief(line)}')
    return value


def first_record(source: Source) -> Mapping[str, Any]:
    """
    Return the first record that can be read, for what it tells of the others; one
    without anything if there is none near the start.
    """
    for _, found in islice(records(source), NEAR):
        if not isinstance(found, Misshapen):
            return found
    return {}


def text_of(record: Any, key: str, where: str) -> str:
    """
    Return a record's text under ``key``.

    :raises Misshapen: when there is none.
    """
    value = record.get(key) if isinstance(record, dict) else None
    if not isinstance(value, str):
        found = 'is missing' if value is None else f'is a text, not {brief(value)}'
        raise Misshapen(f'{where}: {key!r} {found}')
    return value


def list_of(record: Any, key: str) -> list[Any]:
    """
    Return a record's list under ``key``.

    :raises Misshapen: when there is none.
    """
    value = record.get(key)
    if not isinstance(value, list):
        raise Misshapen(f'{key!r} is a list, not {brief(value)}')
    return value


def id_of(record: Mapping[str, Any], key: str = 'dialogue_id') -> str | None:
    """
    Return a record's own name of its dialogue: a text, or a number as text.

    :raises Misshapen: when it is something else.
    """
    value = record.get(key)
    if isinstance(value, Mapping):  # MongoDB's way to write an id
        value = value.get('$oid')
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or value == '':
        raise Misshapen(f'{key!r} is a text or a number, not {brief(value)}')
    return str(value)
