"""
Records from plain JSON data, with every value's type checked.

A `Record` is a model of pydantic: it knows no other keys than its own. The functions
below do the same for frozen dataclasses, whose further keys are ignored. A field of
these that may be absent has the default `None`; where it is `None`, `record_to_json` of
the core leaves it out of the data. `json_keys` gives fields other names in the data.
"""

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Strict,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.json_text import parse_own_json

Where = tuple[str | int, ...]  # the keys that lead to a value
MISSING = 'is missing'


class WrongType(ValueError):
    """
    A value in JSON data has another type than its field, or is wrong otherwise; the
    message says where.

    :ivar problem: what is wrong.
    """

    def __init__(self, problem: str, place: Where = ()):
        self.problem, self.place = problem, place
        parted = ' ' if problem == MISSING else ': '
        super().__init__(parted.join(filter(None, [key_path(place), problem])))


def key_path(place: Where) -> str:
    """
    Return the keys that lead to a value as a text, such as ``targets[1].name``.
    """
    return ''.join(f'[{k}]' if isinstance(k, int) else f'.{k}' for k in place).lstrip(
        '.'
    )


class Record(BaseModel):
    """
    A record that a file holds; each of its values is of the declared type.
    """

    model_config = ConfigDict(frozen=True, extra='forbid')

    @model_validator(mode='before')
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        """
        Name an unknown key before one that is missing: it may be that one, mistyped.
        """
        for key in data if isinstance(data, Mapping) else ():
            if key not in cls.model_fields:
                problem = f'unknown key; {nearest(str(key), cls.model_fields)}'
                raise WrongType(problem, (key,))
        return data


T = TypeVar('T')
R = TypeVar('R', bound=Record)
EXPECTED = {
    'string_type': 'a text',
    'int_type': 'a whole number',
    'float_type': 'a number',
    'tuple_type': 'a list',
    'list_type': 'a list',
    'bool_type': 'true or false',
    'dict_type': 'a mapping',
    'model_type': 'a mapping',
    'dataclass_type': 'a mapping',
    'too_short': '{min_length} or more',
    'too_long': '{max_length} or fewer',
    'string_too_short': 'a text that is not empty',
    'greater_than': 'a number above {gt:g}',
    'greater_than_equal': 'a larger number',
    'less_than_equal': 'a smaller number',
    'literal_error': '{expected}',
    'string_pattern_mismatch': 'a text of the form {pattern}',
}


def _number(value: Any) -> Any:
    if type(value) not in (int, float):
        raise PydanticCustomError('float_type', 'no number')
    return value


WholeNumber = Annotated[int, Strict()]
RealNumber = Annotated[float, Strict()]
# stays what it is, so that a file is written as it was read
Number = Annotated[Any, BeforeValidator(_number)]


def read_record(kind: type[R], data: Any) -> R:
    """
    Return JSON data as a record.

    :raises WrongType: names a key that there is not (with the nearest that there is),
        else the first that is missing, or whose value does not fit.
    """
    try:
        return kind.model_validate(data)
    except ValidationError as refused:
        raise _first_refusal(refused) from None


def _first_refusal(refused: ValidationError) -> WrongType:
    """
    Return what pydantic says of the first wrong value.
    """
    error = refused.errors(include_url=False)[0]
    # pydantic has the key of a mapping once more where it is the key that is wrong
    place = tuple(key for key in error['loc'] if key != '[key]')
    if (own := error.get('ctx', {}).get('error')) is not None:  # of our own checks
        inside = getattr(own, 'place', ())
        return WrongType(getattr(own, 'problem', str(own)), place + inside)
    if error['type'] == 'missing':
        return WrongType(MISSING, place)
    words = EXPECTED.get(error['type'])
    words = words.format_map(error.get('ctx', {})) if words else error['msg']
    return WrongType(f'{words} expected, not {error["input"]!r:.60}', place)


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def read_own_record(kind: type[T], path: Path, advice: str) -> T:
    """
    Return what a file of our own holds as ``kind``.

    :param advice: what to do where the file is damaged.
    :raises UserError: when it is damaged, or not there.
    """
    try:
        return record_from_json(kind, parse_own_json(path.read_bytes()))
    except (OSError, ValueError) as error:
        raise UserError(f'{path}: cannot be read ({error}); {advice}') from None


def user_record(kind: type[T], data: Any, where: str) -> T:
    """
    Return JSON data in a user's file as ``kind``.

    :param where: the file, and the place in it.
    :raises UserError: names the first value that does not fit.
    """
    try:
        return record_from_json(kind, data)
    except WrongType as error:
        raise UserError(f'{where}: {error}') from None


def record_from_json(kind: type[T], data: Any, where: str = '') -> T:
    """
    Return JSON data as ``kind``, such as a dataclass.

    :param where: the place of the data in its file, for the message.
    :raises WrongType: at the first value that does not fit.
    """
    try:
        record = _adapter(kind).validate_json(json.dumps(data), strict=True)
    except ValidationError as refused:
        first = _first_refusal(refused)
        place = ((where,) if where else ()) + first.place
        raise WrongType(first.problem, place) from None
    return record
