"""
Records as JSON data and back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pytest

from parlai_ext.core import json_keys, record_to_json
from parlai_ext.core.records import Record, WrongType, read_record, record_from_json


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
