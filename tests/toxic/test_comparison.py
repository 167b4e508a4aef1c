"""
Systems compared: numbers by pencil, and no text in any table.
"""

import json

import pandas as pd
import pytest

from parlai_ext.data.toxic_pairs import ToxicPair
from parlai_ext.toxic.comparison import (
    answers_file,
    compare_answers,
    comparison_lines,
    distinct_values,
    measures_file,
    prompts_of_pairs,
    safety_data,
    safety_differences,
)
from parlai_ext.toxic.measures import BLEU, Prompt
from tests.support.written import rows_of_csv

SHARES = ['toxic (words)', 'deflection']


@pytest.fixture
def comparison():
    prompts = [Prompt(str(i), f'MARKED {i}') for i in range(4)]
    # of each system and prompt an answer for each digit, 1 for a toxic one
    flags = {'a': ('11', '10', '00', '11'), 'b': ('00', '00', '00', '')}
    rows = [
        (name, str(i), 'MARKED text', None, float(flag), 0.0, 2.0, None)
        for name, of_system in flags.items()
        for i, of_prompt in enumerate(of_system)
        for flag in of_prompt
    ]
    about = ('system', 'prompt', 'text', 'reason')
    answers = pd.DataFrame(rows, columns=[*about, *SHARES, 'words', BLEU])
    return compare_answers(prompts, answers, SHARES, bootstraps=50)


def test_a_share_is_the_mean_over_prompts_of_the_share_of_answers(comparison):
    rows = {row.name: row for row in comparison.rows}
    row = rows['toxic (words)']
    a, b = row.values
    assert (a.value, b.value) == (pytest.approx(2.5 / 4), 0)
    assert row.n == [4, 3]
    assert rows['any toxic (words)'].values[0].value == pytest.approx(3 / 4)
    [one] = row.differences  # which are paired
    assert one.n == 3 and one.difference == pytest.approx(1.5 / 3)


def test_tables_hold_every_number_and_no_text(comparison, tmp_path):
    texts = [
        measures_file(comparison).csv(),
        safety_differences(comparison).csv(),
        answers_file(comparison).csv(),
        json.dumps(safety_data(comparison)),
        '\n'.join(comparison_lines(comparison)),
    ]
    assert not any('MARKED' in text for text in texts)
    measures, differences, answers = map(rows_of_csv, texts[:3])
    assert float(measures[0]['value']) == 0.625 and measures[0]['answers'] == '8'
    assert float(differences[0]['difference']) == 0.5
    assert len(answers) == 14


def test_prompts_of_two_files_with_the_same_ids_stay_apart():
    pairs = [
        ToxicPair('1', 'a', 'x'),
        ToxicPair('1', 'b', 'y'),
        ToxicPair('2', 'a', 'z'),
    ]
    a, b = prompts_of_pairs(pairs)
    assert (a.id, a.references, b.references) == ('2', ('x', 'z'), ('y',))
    assert '1' not in (b.id, *a.other_ids)


def test_distinct_2_is_the_share_of_different_word_pairs():
    # pairs: a b, b c; a b; b c, c d; 3 different ones of 5
    values = distinct_values(pd.Series(['a b c', 'A, b!', 'b c d'], list('123')))
    assert values.mean() == pytest.approx(3 / 5)
    assert 'a failure' not in distinct_values(
        pd.Series(['a b c', 'b c d', None], ['1', '2', 'a failure'])
    )
    same = distinct_values(pd.Series(['a b c'] * 4, list('1234')))
    # whatever prompt is left out, 2 of 6 are different: no variance
    assert same.to_list() == pytest.approx([2 / 8] * 4)
