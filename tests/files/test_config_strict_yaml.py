"""
YAML files are read strictly, and every mistake names its line.
"""

import pytest

from parlai_ext.core.errors import nearest
from parlai_ext.files.yaml_file import read_file, read_text
from tests.support.user_error import user_error


def mistake(text: str) -> str:
    with user_error() as caught:
        read_text(text, 'my.yaml')
    return str(caught.value)


def test_plain_data_is_what_safe_load_says():
    assert read_text('a: [1, 2.5, true]\nb: {c: text}\n', 'f').data == {
        'a': [1, 2.5, True],
        'b': {'c': 'text'},
    }


def test_a_power_of_ten_is_a_number():
    # YAML 1.1, hence PyYAML, reads 1e-4 as text
    assert read_text('lr: 1e-4', 'f').data == {'lr': 0.0001}


def test_a_date_stays_text():
    assert read_text('name: 2022-01-31', 'f').data == {'name': '2022-01-31'}


# YAML 1.2.2, 10.3.2 (core schema): none of these is a number there
@pytest.mark.parametrize(
    'word', ['1:30:00', '16:9', '010', '09', '0b11', '1_000', '1_0.5', '=', 'y', 'n']
)
def test_numbers_of_yaml_1_1_stay_text(word):
    assert read_text(f'a: {word}', 'f').data == {'a': word}


@pytest.mark.parametrize(
    'word, value',
    [('-.5', -0.5), ('1.', 1.0), ('+12', 12), ('0x1F', 31), ('~', None), ('1E3', 1e3)],
)
def test_numbers_of_yaml_1_2_are_numbers(word, value):
    assert read_text(f'a: {word}', 'f').data == {'a': value}


@pytest.mark.parametrize('word', ['yes', 'No', 'on', 'OFF'])
def test_a_truth_value_of_yaml_1_1_is_ambiguous(word):
    assert mistake(f'a: 1\nb: {word}').startswith('my.yaml:2: b: ')
    assert read_text(f"a: '{word}'", 'f').data == {'a': word}


@pytest.mark.parametrize('word', ['.inf', '-.INF', '.nan', '1e400'])
def test_a_number_that_is_not_finite_is_refused(word):
    assert mistake(f'a: {word}').startswith('my.yaml:1: a: ')


@pytest.mark.parametrize('text', ['a: "\\ud83d"', 'a: [x, "y \\udc00"]'])
def test_half_a_character_is_refused(text):
    assert 'half a character' in mistake(text)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path):
    (tmp_path / 'a.yaml').write_bytes(b'\xef\xbb\xbfseed: 1\n')
    assert read_file(tmp_path / 'a.yaml').data == {'seed': 1}


def test_json_with_tabs_is_read(tmp_path):
    (tmp_path / 'a.json').write_text('{\n\t"name": "x",\n\t"opt": {"model": "y"}\n}')
    assert read_file(tmp_path / 'a.json').data == {'name': 'x', 'opt': {'model': 'y'}}


def test_a_repeated_key_is_refused_with_both_lines():
    assert (
        mistake('a: 1\nb: 2\na: 3\n') == 'my.yaml:3: a: given twice (first in line 1)'
    )


def test_multiplying_aliases_are_refused():
    lines = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
    lines += [f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]' for i in range(1, 9)]
    assert 'aliases multiply' in mistake('\n'.join(lines))


def test_an_alias_of_itself_is_refused():
    assert 'aliases multiply' in mistake('a: &a [*a]')


def test_one_alias_is_fine():
    text = 'a: &beam {beam_size: 3}\nb: *beam\n'
    assert read_text(text, 'f').data['b'] == {'beam_size': 3}


@pytest.mark.parametrize(
    'text, line',
    [
        ('a: 1\nb: !!python/object/apply:os.system ["true"]\n', 2),
        ('a: 1\n  b: 2\n', 2),
        ('a: [1, 2\n', 2),
        ('a: 1\n\tb: 2\n', 2),
        ('a: 1\n---\nb: 2\n', 2),
        ('<<: {a: 1}\n', 1),
        ('a:\n  no: 1\n', 2),
        ('a: 1\n? [1, 2]\n: 3\n', 2),
    ],
)
def test_what_is_not_plain_yaml_is_refused_by_line(text, line):
    assert mistake(text).startswith(f'my.yaml:{line}: ')


def test_other_encodings_are_refused_by_line(tmp_path):
    (tmp_path / 'a.yaml').write_bytes(b'a: 1\nb: caf\xe9\n')
    with user_error(r'a\.yaml:2: not UTF-8'):
        read_file(tmp_path / 'a.yaml')


def test_a_missing_file_is_one_line(tmp_path):
    with user_error('No such file'):
        read_file(tmp_path / 'none.yaml')


def test_the_nearest_name_is_named_whatever_its_case():
    assert nearest('overal', ['Overall', 'Fluency']) == "did you mean 'Overall'?"


def test_without_a_near_name_all_are_shown():
    assert nearest('xyz', ['b', 'a']) == 'known: a, b'


def test_a_word_is_no_hint_at_itself():
    assert nearest('demo', ['demo', 'demos']) == "did you mean 'demos'?"
    assert nearest('demo', ['demo']) == 'known: none'
