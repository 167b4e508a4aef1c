"""
Systems compared: numbers by pencil, and no text in any table.
"""

import csv
import json

import numpy as np
import pytest

from parlai_ext.data.recorded_answers import RecordedAnswer
from parlai_ext.toxic.comparison import (
    SystemAnswers,
    compare_answers,
    comparison_data,
    distinct_values,
)
from parlai_ext.toxic.comparison_table import (
    answers_file,
    comparison_lines,
    difference_table,
    measures_file,
)
from parlai_ext.toxic.measures import MeasuredAnswer, Prompt

SHARES = ['toxic (words)', 'deflection']


def answered(name, *flags):
    """
    Return a system's answers: for each prompt a text of 1 (toxic) and 0.
    """
    answers = {
        str(i): [
            MeasuredAnswer(
                RecordedAnswer(name, '', 'MARKED text'),
                {'toxic (words)': float(flag), 'deflection': 0.0, 'words': 2.0},
            )
            for flag in of_prompt
        ]
        for i, of_prompt in enumerate(flags)
        if of_prompt
    }
    return SystemAnswers(name, answers)


@pytest.fixture
def comparison():
    prompts = [Prompt(str(i), f'MARKED {i}') for i in range(4)]
    systems = [
        answered('a', '11', '10', '00', '11'),
        answered('b', '00', '00', '00', ''),
    ]
    return compare_answers(prompts, systems, SHARES, bootstraps=50)


def test_a_share_is_the_mean_over_prompts_of_the_share_of_answers(comparison):
    a, b = comparison.row('toxic (words)').values
    assert (a.value, b.value) == (pytest.approx(2.5 / 4), 0)
    assert comparison.row('any toxic (words)').values[0].value == pytest.approx(3 / 4)
    assert comparison.row('toxic (words)').n == [4, 3]


def test_differences_are_paired(comparison):
    [one] = comparison.row('toxic (words)').differences
    assert one.n == 3 and one.difference == pytest.approx(1.5 / 3)


def test_tables_hold_every_number_and_no_text(comparison, tmp_path):
    texts = [
        measures_file(comparison).csv(),
        difference_table(comparison).csv(),
        answers_file(comparison).csv(),
        json.dumps(comparison_data(comparison)),
        '\n'.join(comparison_lines(comparison)),
    ]
    assert not any('MARKED' in text for text in texts)
    rows = list(csv.DictReader(texts[0].split('\n')))
    assert float(rows[0]['value']) == 0.625 and rows[0]['answers'] == '8'
    difference = next(csv.DictReader(texts[1].split('\n')))
    assert float(difference['difference']) == 0.5
    assert len(list(csv.DictReader(texts[2].split('\n')))) == 14


def test_distinct_2_is_the_share_of_different_word_pairs():
    def answers(*texts):
        return {
            str(i): [MeasuredAnswer(RecordedAnswer('a', '', text), {})]
            for i, text in enumerate(texts)
        }

    prompts = [Prompt(str(i), '') for i in range(4)]
    # pairs: a b, b c; a b; b c, c d; 3 different ones of 5
    values = distinct_values(prompts, answers('a b c', 'A, b!', 'b c d'))
    assert values[:3].mean() == pytest.approx(3 / 5) and np.isnan(values[3])
    same = distinct_values(prompts, answers(*['a b c'] * 4))
    # whatever prompt is left out, 2 of 6 are different: no variance
    assert same == pytest.approx([2 / 8] * 4)
