"""
Human judgements from CSV, and every row that cannot be one.
"""

import pytest

from parlai_ext.core import HumanJudgement
from parlai_ext.files import read_human_scores
from tests.support.user_error import error_line, user_error

HEADER = 'system,dimension,value\n'


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / 'h.csv').write_bytes(text.encode())
        return read_human_scores(tmp_path / 'h.csv')

    return read


def test_three_columns_are_enough_and_unsigned_judgements_may_be_many(read):
    assert read(HEADER + 'a,Overall,3.5\nb,Overall,-1e-1\na,Overall,3.5\n') == [
        HumanJudgement('a', 'Overall', 3.5),
        HumanJudgement('b', 'Overall', -0.1),
        HumanJudgement('a', 'Overall', 3.5),
    ]


def test_all_columns_in_any_order_and_empty_ones_are_none(read):
    text = (
        'value,rater,system,dialogue_id,dimension\n4,r1,a,d1,Overall\n5,,a,,Overall\n'
    )
    assert read(text) == [
        HumanJudgement('a', 'Overall', 4.0, 'r1', 'd1'),
        HumanJudgement('a', 'Overall', 5.0),
    ]


@pytest.mark.parametrize(
    'rows, words',
    [
        ('a,Overall,high\n', ':2: column value: a number such as 3.5 is expected'),
        ('a,Overall,3\nb,Overall,\n', ':3: column value'),
        ('a,Overall,nan\n', ':2: column value'),
        ('a,Overall,1_000\n', ':2: column value'),
        ('a, ,3\n', ':2: column dimension: is empty'),
        ('', 'no judgements'),
    ],
)
def test_a_bad_row_is_one_line(read, rows, words):
    assert words in error_line(read, HEADER + rows)


def test_a_wrong_header_is_one_line(read):
    line = error_line(read, 'system,dimensions,value\n')
    assert "unknown column 'dimensions'; did you mean" in line


def test_one_rater_judges_a_dialogue_once(read):
    rows = 'a,Overall,3,r,d\na,Overall,3,r,e\na,Overall,4,r,d\n'
    with user_error(':4: the same judgement is in line 2'):
        read('system,dimension,value,rater,dialogue_id\n' + rows)
