"""
Records as plain JSON data, and back with every value's type checked.

A `Record` is a model of pydantic: it knows no other keys than its own. The functions
below do the same for frozen dataclasses, whose further keys are ignored.

A field that may be absent has the default `None`; where it is `None`, it is left out of
the data. A field whose name in the data is another one says so in its metadata (`key`).
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Strict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from parlai_ext.core.errors import nearest

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


class Record(BaseModel):
    """
    A record that a file holds; each of its values is of the declared type.
    """

    model_config = ConfigDict(frozen=True, extra='forbid')


R = TypeVar('R', bound=Record)
EXPECTED = {
    'string_type': 'a text',
    'int_type': 'a whole number',
    'float_type': 'a number',
    'tuple_type': 'a list',
    'list_type': 'a list',
    'dict_type': 'a mapping',
    'model_type': 'a mapping',
    'dataclass_type': 'a mapping',
}


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise PydanticCustomError('float_type', 'no number')
    return value


WholeNumber = Annotated[int, Strict()]
# stays what it is, so that a file is written as it was read
Number = Annotated[Any, BeforeValidator(_number)]


def read_record(kind: type[R], data: Any) -> R:
    """
    Return JSON data as a record.

    :raises WrongType: names the first key that is missing, that there is not (with the
        nearest that there is), or whose value does not fit.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise WrongType(_refusal(kind, error.errors(include_url=False)[0])) from None


def _refusal(kind: type[Record], error: ErrorDetails) -> str:
    """
    Return what pydantic says of a value in one line that begins with its key.
    """
    place = error['loc']
    where = ''.join(f'[{k}]' if isinstance(k, int) else f'.{k}' for k in place)[1:]
    if error['type'] == 'missing':
        return f'{where} is missing'
    if error['type'] == 'extra_forbidden':
        owner = (
            kind if len(place) == 1 else _record_in(kind.model_fields[str(place[0])])
        )
        known = owner.model_fields if owner else ()
        return f'{where}: unknown key; {nearest(str(place[-1]), known)}'
    if error['type'] == 'value_error':  # of our own checks, which name the key
        return str(error['ctx']['error'])
    words = EXPECTED.get(error['type'], error['msg'])
    return f'{where or "the file"}: {words} expected, not {error["input"]!r:.60}'


def _record_in(annotated: Any) -> type[Record] | None:
    """
    Return the kind of record that a field holds, alone or in a mapping.
    """
    kind = getattr(annotated, 'annotation', annotated)
    if isinstance(kind, type) and issubclass(kind, Record):
        return kind
    return next(filter(None, map(_record_in, typing.get_args(kind))), None)


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
