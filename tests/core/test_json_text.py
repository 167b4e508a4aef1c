"""
JSON from files, text that no file in UTF-8 can hold, and records as JSON and back.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import pytest

from parlai_ext.core import (
    first_object,
    json_keys,
    json_text,
    parse_json,
    parse_json_values,
    parse_own_json,
    record_to_json,
    whole_characters,
    without_half_characters,
)
from parlai_ext.core.records import Record, WrongType, read_record, record_from_json
from parlai_ext.files import json_lines, read_json
from tests.support.user_error import user_error
from tests.support.written import written

HALF = '{"a": [{"text": "x \\ud83d"}]}'
IN_A = r'a\[0\]\.text'


@pytest.mark.parametrize(
    'text, place',
    [
        (HALF, IN_A),
        (HALF.encode(), IN_A),
        (HALF.encode('utf-16'), IN_A),
        ('{"a": {"\\udc00": 1}}', 'a key of a'),
    ],
)
def test_half_a_character_is_refused_by_its_key(text, place):
    with pytest.raises(ValueError, match=f'{place} holds half a character'):
        parse_json(text)


def test_both_halves_are_a_character():
    assert parse_json('["\\ud83d\\ude00"]') == ['\U0001f600']


def test_each_half_in_data_is_replaced():
    data = {'k \ud83d': ['a \udc00', 1, None, ('b',)]}
    assert whole_characters(data) == {'k \ufffd': ['a \ufffd', 1, None, ['b']]}
    assert without_half_characters('\ude00\ud83d') == '\ufffd\ufffd'


@pytest.mark.parametrize('data', [b'\xff', b''])
def test_what_no_file_of_ours_holds_is_refused(data):
    with pytest.raises(ValueError):
        parse_own_json(data)


@pytest.mark.parametrize(
    'text, problem',
    [
        ('{"saved": NaN}', 'NaN is no finite number'),
        ('[-Infinity]', '-Infinity is no finite number'),
        ('[1e999]', '1e999 is no finite number'),
        ('1' * 400, 'a number of 400 digits'),
        ('{"a": {"b": 1, "c": 2, "b": 3}}', "the key 'b' is there twice"),
        ('[' * 101 + ']' * 101, 'nested too deeply'),
        ('{"a":' * 101 + '1' + '}' * 101, 'nested too deeply'),
        ('[' * 10**5, 'nested too deeply'),
        # brackets in a string close nothing
        ('["]]]]",' * 101 + '1' + ']' * 101, 'nested too deeply'),
        (r'["\"]",' * 101 + '1' + ']' * 101, 'nested too deeply'),
        (r'["\\",' * 101 + '1' + ']' * 101, 'nested too deeply'),
    ],
)
def test_json_is_read_strictly(text, problem):
    readers = (parse_json, parse_own_json, lambda text: list(parse_json_values(text)))
    for read in readers:
        with pytest.raises(ValueError, match=problem):
            read(text)


@pytest.mark.parametrize(
    'value',
    [
        '[' * 500,
        [[]] * 500,
        [{'text': f'[{{"\\ {n}', 'next': []} for n in range(300)],
        {str(n): {'a': 1} for n in range(300)},
    ],
)
def test_brackets_beside_one_another_and_in_texts_are_no_depth(value):
    assert parse_json(json.dumps(value)) == value
    assert parse_json(json.dumps(value, ensure_ascii=False, indent=2)) == value


def test_a_text_is_as_deep_as_is_said():
    text = '[' * json_text.DEEPEST + ']' * json_text.DEEPEST
    assert json.dumps(parse_json(text)) == text


def test_a_text_that_is_too_large_is_refused_unparsed(monkeypatch):
    monkeypatch.setattr(json_text, 'MOST_CHARACTERS', 10)
    with pytest.raises(ValueError, match='more than 10 characters'):
        parse_json('{' * 11)  # which is no JSON


def test_settings_of_a_hugging_face_model_may_hold_any_number():
    text = '{"time_step_limit": [0.0, Infinity]}'
    assert parse_json(text, any_number=True) == {'time_step_limit': [0.0, math.inf]}
    with pytest.raises(ValueError, match='twice'):
        parse_json('{"a": NaN, "a": 1}', any_number=True)


def test_values_that_follow_one_another():
    assert list(parse_json_values(' {"a": 1}\n[2] 3 ')) == [{'a': 1}, [2], 3]


def test_the_first_object_among_words():
    text = 'I say [so] {x}: {"a": NaN} or {"b": {"c": 1}}, {"d": 2}'
    assert first_object(text) == {'b': {'c': 1}}
    assert first_object('{"a":' * 1000) is None


@pytest.mark.parametrize('text', [HALF, '[' * 10_000], ids=['half', 'deep'])
@pytest.mark.parametrize(
    'read', [partial(read_json, kind=dict), lambda path: [*json_lines(path)]]
)
def test_readers_of_files_refuse_half_a_character_and_deep_nesting(
    tmp_path, read, text
):
    with user_error(r'x\.json'):
        read(written(tmp_path, 'x.json', text))


# Records as JSON data and back


@dataclass(frozen=True)
class Leaf:
    value: float | None
    count: int = 0
    reason: str | None = None


@dataclass(frozen=True)
class Tree:
    __pydantic_config__ = json_keys(is_old='old')

    leaves: tuple[Leaf, ...]
    by_name: Mapping[str, Leaf] = field(default_factory=dict)
    is_old: bool = False


TREE = Tree((Leaf(None, 2), Leaf(0.5, 1, 'so')), {'a': Leaf(1.0)}, True)
DATA = {
    'leaves': [
        {'value': None, 'count': 2},
        {'value': 0.5, 'count': 1, 'reason': 'so'},
    ],
    'by_name': {'a': {'value': 1.0, 'count': 0}},
    'old': True,
}


def test_a_record_becomes_data_without_what_is_absent_and_comes_back():
    assert record_to_json(TREE) == DATA
    assert record_from_json(Tree, DATA) == TREE


def test_unknown_keys_are_ignored_and_defaults_hold():
    assert record_from_json(Tree, {'leaves': [], 'new': 1}) == Tree(())


@pytest.mark.parametrize(
    'data, place',
    [
        ([], 'a mapping expected'),
        ({}, 'leaves is missing'),
        ({'leaves': {}}, 'leaves: a list'),
        ({'leaves': [{'value': 1.0, 'count': 1.5}]}, r'leaves\[0\]\.count: a whole'),
        ({'leaves': [{'value': True}]}, r'leaves\[0\]\.value: a number'),
        ({'leaves': [], 'old': 0}, 'old: true or false'),
    ],
)
def test_a_wrong_value_is_named_by_its_place(data, place):
    with pytest.raises(WrongType, match=place):
        record_from_json(Tree, data)


class Twig(Record):
    length: float


class Bush(Record):
    twigs: dict[str, Twig]
    sizes: dict[Literal['low', 'high'], int] = {}


@pytest.mark.parametrize(
    'data, problem',
    [
        # the right key is missing since it is mistyped
        ({'twig': {}}, "^twig: unknown key; did you mean 'twigs'"),
        ({'twigs': {'a': {'lenght': 1}}}, r"twigs\.a\.lenght: .*'length'"),
        ({'twigs': {}, 'sizes': {'lo': 1}}, r"sizes\.lo: 'low' or 'high' expected"),
        ({'twigs': {'a': {}}}, r'twigs\.a\.length is missing'),
    ],
)
def test_an_unknown_key_is_named_before_one_that_is_missing(data, problem):
    with pytest.raises(WrongType, match=problem):
        read_record(Bush, data)
