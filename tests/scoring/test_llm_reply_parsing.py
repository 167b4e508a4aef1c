"""
Ratings in the words of a model: what counts, and what is missing instead of guessed.
"""

import math

import pytest

from parlai_ext.core.json_text import first_object
from parlai_ext.files.yaml_file import read_text
from parlai_ext.scoring.llm.prompts import (
    expected_rating,
    json_ratings,
    label_probabilities,
    label_rating,
    read_prompt,
)

FIVE = 'scale: {lowest: 1, highest: 5}'
PAIR = "labels: {X: 1, Y: 0, Tie: 0.5, 'Not at all': 0.1}"


def prompt(labels=FIVE, answer='label', dimensions='{Overall: good}'):
    text = f'level: turn\nanswer: {answer}\n{labels}\ndimensions: {dimensions}\n'
    question = '{question}' if answer == 'label' else '{questions}'
    text += f"prompt: '{{context}} {{response}} {question}'"
    return read_prompt(read_text(text, 'p.yaml'))


@pytest.mark.parametrize(
    'reply, value',
    [
        ('4', 4),
        (' **4**.', 4),
        ('Rating: 4/5', 4),
        ('I give it 5 out of 5.', 5),
        ('4.5', 4.5),
        ('4 4', 4),
        ('The 1st response is a 3', 3),
        ('no idea', None),
        ('4 or 5', None),
        ('10', None),
        ('-3', None),
        ('2024', None),
        ('', None),
    ],
)
def test_a_number_of_a_scale(reply, value):
    rating = label_rating(reply, prompt())
    assert rating.value == value
    assert (rating.reason is None) == (value is not None)


@pytest.mark.parametrize(
    'reply, value',
    [
        ('X', 1),
        ('"y".', 0),
        ('The answer is Y', 0),
        ('tie', 0.5),
        ('Not at all', 0.1),
        ('X or Y', None),
        ('x is better than what y said', None),
        ('neither', None),
    ],
)
def test_a_label_in_words(reply, value):
    assert label_rating(reply, prompt(PAIR)).value == value


def test_the_expected_value_is_the_mean_under_the_probabilities():
    # (1 * 0.1 + 5 * 0.3) / 0.4
    rating = expected_rating({'1': 0.1, '5': 0.3}, prompt())
    assert rating.value == pytest.approx(4.0)


def test_labels_without_any_probability_have_no_expected_value():
    assert expected_rating({'1': 0.0, '5': 0.0}, prompt()).value is None


def test_alternatives_that_are_one_label_are_added():
    alternatives = [
        [['Rating', 0.0]],
        [[' 4', math.log(0.5)], ['4', math.log(0.25)], ['5', math.log(0.125)]],
    ]
    found = label_probabilities(alternatives, prompt())
    assert found == pytest.approx({'1': 0, '2': 0, '3': 0, '4': 0.75, '5': 0.125})


def test_no_token_is_a_label():
    assert label_probabilities([[['Good', -0.1], ['4', -2.0]]], prompt()) is None


def test_a_label_that_begins_another_is_not_told_by_one_token():
    ten = 'scale: {lowest: 1, highest: 10}'
    assert label_probabilities([[['1', -0.1]]], prompt(ten)) is None


def test_a_json_object_with_words_around_it():
    both = prompt('scale: {lowest: 0, highest: 5}', 'json', '{Content: a, Grammar: b}')
    ratings = json_ratings('Sure {x}: {"content": 4.5, "Grammar": "3"} bye', both)
    assert [ratings[name].value for name in both.dimensions] == [4.5, 3.0]


@pytest.mark.parametrize(
    'reply',
    [
        '{"Grammar": 3}',
        '{"Content": 6}',
        '{"Content": true}',
        '{"Content": NaN}',
        f'{{"Content": 1{"0" * 400}}}',  # a model that does not stop
    ],
)
def test_a_dimension_that_json_lacks_is_missing_with_a_reason(reply):
    both = prompt('scale: {lowest: 0, highest: 5}', 'json', '{Content: a, Grammar: b}')
    rating = json_ratings(reply, both)['Content']
    assert rating.value is None and rating.reason


def test_an_object_that_breaks_off_is_none():
    assert first_object('{"Content": 4, "Gram') is None
