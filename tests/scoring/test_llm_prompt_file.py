"""
Prompts of LLM judges: what a file may hold, and how it is filled.
"""

import pytest

from parlai_ext import zoo_configs
from parlai_ext.files.yaml_file import read_file, read_text
from parlai_ext.scoring.llm.prompts import load_prompt, read_prompt
from tests.support.user_error import user_error

GOOD = """level: turn
scale: {lowest: 1, highest: 3}
dimensions: {Overall: good}
prompt: 'A {context} B {response} {"json": 1}'
"""


def prompt(text):
    return read_prompt(read_text(text, 'mine.yaml'))


def test_a_scale_gives_a_label_for_each_number():
    assert prompt(GOOD).labels == {'1': 1.0, '2': 2.0, '3': 3.0}


def test_what_is_filled_in_is_not_filled_again():
    filled = prompt(GOOD).filled({'context': '{response}', 'response': 'yes'})
    assert filled == 'A {response} B yes {"json": 1}'


@pytest.mark.parametrize(
    'old, new, place',
    [
        ('level: turn', 'level: turns', 'mine.yaml:1: level'),
        ('scale: {lowest: 1, highest: 3}', '', 'mine.yaml:1: .*scale or labels'),
        ('highest: 3', 'highest: 1', 'mine.yaml:2: scale'),
        ('highest: 3', 'highest: 2.5', 'mine.yaml:2: scale.highest'),
        ('highest: 3', 'top: 3', 'mine.yaml:2: scale.top'),
        ('scale: {lowest: 1, highest: 3}', 'labels: {Y: 1}', 'mine.yaml:2: labels'),
        (
            'scale: {lowest: 1, highest: 3}',
            "labels: {'Yes': 1, 'No': none}",
            'mine.yaml:2: labels.No',
        ),
        ('{Overall: good}', '{}', 'mine.yaml:3: dimensions'),
        ('{Overall: good}', '{Overall: 3}', 'mine.yaml:3: dimensions.Overall'),
        ('{response}', '{reply}', 'mine.yaml:4: prompt: .*reply'),
        ('{response}', '', 'mine.yaml:4: prompt: .*response'),
        ('{Overall: good}', '{A: good, B: bad}', 'mine.yaml:4: prompt: .*question'),
        ('prompt', 'promt', 'mine.yaml:4: promt'),
        ('level: turn', 'level: turn\nanswer: xml', 'mine.yaml:2: answer'),
    ],
)
def test_a_mistake_is_named_with_line_and_key(old, new, place):
    with user_error(place):
        prompt(GOOD.replace(old, new))


def test_a_pair_has_labels_from_0_to_1():
    pair = GOOD.replace('turn', 'pair').replace('{response}', '{first} {second}')
    with user_error(r'mine.yaml:1: labels'):
        prompt(pair)


def test_a_prompt_of_another_level_is_refused():
    with user_error(r'dialogue.yaml:\d+: level'):
        load_prompt('dialogue', 'turn')


def test_an_unknown_name_gets_the_nearest_one():
    with user_error('response'):
        load_prompt('reponse', 'turn')


@pytest.mark.parametrize('path', sorted((zoo_configs.HOME / 'prompts').glob('*.yaml')))
def test_shipped_prompts_can_be_read(path):
    assert read_prompt(read_file(path)).dimensions
