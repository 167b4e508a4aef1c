"""
JSON from files, and text that no file in UTF-8 can hold.
"""

import json

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import (
    parse_json,
    parse_own_json,
    whole_characters,
    without_half_characters,
)
from parlai_ext.data.corpora import json_lines
from parlai_ext.data.judged.data_file import DataFile
from parlai_ext.data.turn_pairs import PairSource, reddit
from parlai_ext.files.json_file import read_json

HALF = '{"a": [{"text": "x \\ud83d"}]}'


@pytest.mark.parametrize('text', [HALF, HALF.encode(), HALF.encode('utf-16')])
def test_half_a_character_is_refused_by_its_key(text):
    with pytest.raises(ValueError, match=r'a\[0\]\.text holds half a character'):
        parse_json(text)


def test_half_a_character_in_a_key_is_refused():
    with pytest.raises(ValueError, match='a key of a holds half a character'):
        parse_json('{"a": {"\\udc00": 1}}')


def test_both_halves_are_a_character():
    assert parse_json('["\\ud83d\\ude00"]') == ['\U0001f600']


def test_each_half_in_data_is_replaced():
    data = {'k \ud83d': ['a \udc00', 1, None, ('b',)]}
    assert whole_characters(data) == {'k \ufffd': ['a \ufffd', 1, None, ['b']]}
    assert without_half_characters('\ude00\ud83d') == '\ufffd\ufffd'


@pytest.mark.parametrize(
    'data', [b'[' * 100_000, b'NaN', b'[-Infinity]', b'1e999', b'1' * 400, b'\xff', b'']
)
def test_what_no_file_of_ours_holds_is_refused(data):
    with pytest.raises(ValueError):
        parse_own_json(data)


def test_readers_of_files_refuse_half_a_character(tmp_path):
    path = tmp_path / 'x.json'
    path.write_text(HALF)
    reads = [
        lambda: read_json(path, dict),
        lambda: DataFile(str(path), 'the official', 'turn', {}).read_json(dict),
        lambda: list(json_lines(path)),
        lambda: list(reddit(PairSource('reddit', path))),
    ]
    for read in reads:
        with pytest.raises(UserError, match=r'x\.json'):
            read()


def test_readers_of_files_refuse_deep_nesting(tmp_path):
    path = tmp_path / 'x.json'
    path.write_text('[' * 100_000)
    for read in (
        lambda: read_json(path, list),
        lambda: list(json_lines(path)),
        lambda: list(reddit(PairSource('reddit', path))),
    ):
        with pytest.raises(UserError, match=r'x\.json'):
            read()


def test_what_is_written_by_json_is_read():
    data = {'a': [1, 2.5, None, True, 'é\u2028'], 'b': {}}
    assert parse_own_json(json.dumps(data).encode()) == data
