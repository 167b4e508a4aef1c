"""
YAML files are read strictly, and every mistake names its line.
"""

import re

import pytest

from parlai_ext.files.yaml_file import read_file, read_text
from tests.support.user_error import error_line, user_error


def mistake(text):
    return error_line(read_text, text, 'my.yaml')


OLD_NUMBERS = ('1:30:00', '16:9', '010', '09', '0b11', '1_000', '1_0.5')
WORDS = {
    # PyYAML reads YAML 1.1, where 1e-4 is text and the next ones are numbers or dates
    '1e-4': 0.0001,
    # YAML 1.2.2, 10.3.2 (core schema): none of these is a number there
    **{word: word for word in [*OLD_NUMBERS, '=', 'y', 'n', '2022-01-31']},
    **{'-.5': -0.5, '1.': 1.0, '+12': 12, '0x1F': 31, '~': None, '1E3': 1e3},
    '[1, 2.5, true]': [1, 2.5, True],
    '{c: text}': {'c': 'text'},
}


@pytest.mark.parametrize('word', WORDS)
def test_words_mean_what_yaml_1_2_says(word):
    assert read_text(f'a: {word}', 'f').data == {'a': WORDS[word]}


@pytest.mark.parametrize('word', ['yes', 'No', 'on', 'OFF'])
def test_a_truth_value_of_yaml_1_1_is_ambiguous(word):
    assert mistake(f'a: 1\nb: {word}').startswith('my.yaml:2: b: ')
    assert read_text(f"a: '{word}'", 'f').data == {'a': word}


@pytest.mark.parametrize('word', ['.inf', '-.INF', '.nan', '1e400'])
def test_a_number_that_is_not_finite_is_refused(word):
    assert mistake(f'a: {word}').startswith('my.yaml:1: a: ')


@pytest.mark.parametrize('text', ['a: "\\ud83d"', 'a: [x, "y \\udc00"]'])
def test_half_a_character_is_refused(text):
    # libyaml refuses it before this reader does
    assert re.search('half a character|Unicode character escape', mistake(text))


@pytest.mark.parametrize(
    'name, data',
    [
        ('a.yaml', b'\xef\xbb\xbfseed: {x: 1}\n'),  # a byte order mark
        ('a.json', b'{\n\t"seed": {\n\t\t"x": 1}\n}'),  # tabs
    ],
)
def test_marks_and_tabs_are_no_data(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert read_file(tmp_path / name).data == {'seed': {'x': 1}}


def test_a_repeated_key_is_refused_with_both_lines():
    line = mistake('a: 1\nb: 2\na: 3\n')
    assert line == 'my.yaml:3: a: given twice (first in line 1)'


LINES = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
LINES += [f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]' for i in range(1, 9)]


@pytest.mark.parametrize('text', ['\n'.join(LINES), 'a: &a [*a]'])
def test_multiplying_aliases_are_refused(text):
    assert 'aliases multiply' in mistake(text)


def test_one_alias_is_fine():
    text = 'a: &beam {beam_size: 3}\nb: *beam\n'
    assert read_text(text, 'f').data['b'] == {'beam_size': 3}


@pytest.mark.parametrize(
    'text, line',
    [
        ('a: 1\nb: !!python/object/apply:os.system ["true"]\n', 2),
        ('a: 1\n  b: 2\n', 2),
        ('a: 1\n\tb: 2\n', 2),
        ('a: 1\n---\nb: 2\n', 2),
        ('<<: {a: 1}\n', 1),
        ('a: 1\n? [1, 2]\n: 3\n', 2),
    ],
)
def test_what_is_not_plain_yaml_is_refused_by_line(text, line):
    assert mistake(text).startswith(f'my.yaml:{line}: ')


def test_other_encodings_are_refused_by_line(tmp_path):
    (tmp_path / 'a.yaml').write_bytes(b'a: 1\nb: caf\xe9\n')
    with user_error(r'a\.yaml:2: not UTF-8'):
        read_file(tmp_path / 'a.yaml')
