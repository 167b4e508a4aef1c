"""
Frozen dataclasses as plain JSON data, and back with every value's type checked.

A field that may be absent has the default `None`; where it is `None`, it is left out of
the data. A field whose name in the data is another one says so in its metadata (`key`).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any

SCALARS: dict[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), 'a text'),
    bool: ((bool,), 'true or false'),
    int: ((int,), 'a whole number'),
    float: ((int, float), 'a number'),
}


class WrongType(ValueError):
    """
    A value in JSON data has another type than its field; the message says where.
    """


def record_to_json(record: Any) -> Any:
    """
    Return a record as JSON data, with the records, mappings and tuples inside it.
    """
    if is_dataclass(record):
        return {
            _key(field): record_to_json(value)
            for field in fields(record)
            if (value := getattr(record, field.name)) is not None
            or field.default is not None
        }
    if isinstance(record, Mapping):
        return {key: record_to_json(value) for key, value in record.items()}
    if isinstance(record, tuple | list):
        return [record_to_json(value) for value in record]
    return record


def record_from_json(kind: Any, data: Any, where: str = '') -> Any:
    """
    Return JSON data as ``kind``: a dataclass, ``Mapping[str, …]``, ``tuple[…, ...]``,
    ``Sequence[…]``, ``… | None``, text, number or ``Any``. Keys that the dataclass does
    not know are ignored.

    :param where: the place of the data in its file, for the message.
    :raises WrongType: at the first value that does not fit.
    """
    if kind in SCALARS:
        accepted, words = SCALARS[kind]
        if isinstance(data, bool) and kind is not bool:
            raise WrongType(f'{where}: {words} expected, not {data!r}')
        return _expect(data, accepted, words, where)
    if is_dataclass(kind):
        return _dataclass_from_json(kind, data, where)
    origin, arguments = _parts_of(kind)
    if origin in (types.UnionType, typing.Union):
        inner = arguments[0]
        return None if data is None else record_from_json(inner, data, where)
    if origin in (tuple, list, Sequence):
        items = [
            record_from_json(arguments[0], item, f'{where}[{i}]')
            for i, item in enumerate(_expect(data, (list,), 'a list', where))
        ]
        return tuple(items) if origin is tuple else items
    if origin is not None:
        return {
            key: record_from_json(arguments[1], value, _inner(where, key))
            for key, value in _expect(data, (dict,), 'a mapping', where).items()
        }
    assert kind is Any, kind
    return data


def _dataclass_from_json(kind: Any, data: Any, where: str) -> Any:
    """
    Return a record of the dataclass ``kind`` from JSON data; ``where`` names the place
    of the data in messages.
    """
    given = _expect(data, (dict,), 'a mapping', where)
    values = {}
    for name, key, field_kind, plain, needed in _fields_of(kind):
        if key in given:
            value = given[key]
            if type(value) is not plain:
                value = record_from_json(field_kind, value, _inner(where, key))
            values[name] = value
        elif needed:
            raise WrongType(f'{_inner(where, key)} is missing')
    return kind(**values)


@cache
def _parts_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """
    Return the origin of a generic kind, and its arguments without `None`.
    """
    arguments = typing.get_args(kind)
    return typing.get_origin(kind), tuple(a for a in arguments if a is not type(None))


@cache
def _fields_of(kind: Any) -> list[tuple[str, str, Any, Any, bool]]:
    """
    Return name, key and kind of each field of a dataclass, the type of values that need
    no further look (texts, numbers), and whether the field is needed. Kept, since
    Python compiles the annotations anew each time that it is asked.
    """
    hints = typing.get_type_hints(kind)
    plain = {
        name: next((k for k in (hint, *_parts_of(hint)[1]) if k in SCALARS), None)
        for name, hint in hints.items()
        if hint in SCALARS or _parts_of(hint)[0] in (types.UnionType, typing.Union)
    }
    return [
        (
            field.name,
            _key(field),
            hints[field.name],
            plain.get(field.name),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    ]


def _key(field: Field[Any]) -> str:
    return str(field.metadata.get('key', field.name))


def _inner(where: str, key: str) -> str:
    return f'{where}.{key}' if where else key


def _expect(data: Any, accepted: tuple[type, ...], words: str, where: str) -> Any:
    """
    Return the data if it is of an accepted type; refuse it by its place otherwise.
    """
    if not isinstance(data, accepted):
        raise WrongType(f'{where or "the file"}: {words} expected, not {data!r:.60}')
    return data
