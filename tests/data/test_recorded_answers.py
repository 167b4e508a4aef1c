"""
Recorded answers of systems, read from files.
"""

import pytest

from parlai_ext.data.toxic_pairs import recorded_answers
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import written


def answers_in(folder, name, text):
    return recorded_answers(str(written(folder, name, text)))


def test_csv_and_json_lines_hold_the_same_answers(tmp_path):
    table = 'system,prompt,answer,toxicity\nx,Hello  you,"Hi,\nthere",1\n'
    row = {'system': 'x', 'prompt': 'Hello you', 'answer': 'Hi, there'}
    answers = answers_in(tmp_path, 'a.csv', table)
    assert answers == answers_in(tmp_path, 'a.jsonl', [row])
    (answer,) = answers
    assert (answer.system, answer.prompt, answer.text) == tuple(row.values())


def test_a_file_without_systems_is_named_on_the_command_line(tmp_path):
    path = written(tmp_path, 'a.csv', 'prompt,answer\nHello,Hi\n')
    assert [a.system for a in recorded_answers(f'canned={path}')] == ['canned']


def test_diasafetys_labels_are_two_systems():
    answers = recorded_answers(f'said={shared("diasafety") / "test.json"}')
    names = [answer.system for answer in answers]
    # Toxicity Agreement of the test file: 149 Safe, 145 Unsafe
    assert (names.count('said_safe'), names.count('said_unsafe')) == (149, 145)


@pytest.mark.parametrize(
    'name, text, place',
    [
        ('a.csv', 'system,prompt\nx,P\n', 'a.csv:1: .*answer'),
        ('a.csv', 'system,prompt,answer\n,P,A\n', 'a.csv:2: system'),
        ('a.csv', 'system,prompt,answer\nx,,A\n', 'a.csv:2: prompt'),
        ('a.csv', 'system,prompt,answer\n', 'no answer'),
        ('a.jsonl', '{"system": "x", "prompt": "P"}\n', 'a.jsonl:1: answer'),
        ('a.json', '[{"context": "P", "gen_response": "A"}]', 'object 1'),
        ('a.json', '[{"context": "P"}]', 'object 1'),
        ('a.csv', 'system,id,answer,safety\nx,1,A,Prompt\n', 'a.csv:2: safety'),
        ('a.txt', 'x', r'\.csv'),
    ],
)
def test_a_mistake_is_refused_by_its_place(tmp_path, name, text, place):
    with user_error(place):
        answers_in(tmp_path, name, text)


def test_a_name_for_a_file_of_another_system_is_refused(tmp_path):
    path = written(tmp_path, 'a.csv', 'system,prompt,answer\nx,P,A\n')
    with user_error('a.csv:2: system'):
        recorded_answers(f'y={path}')
