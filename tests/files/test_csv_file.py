"""
CSV files: rows with line numbers, checked headers and both ways of quoting; openers and
human judgements, and every row that cannot be one.
"""

import pytest

from parlai_ext.core import HumanJudgement
from parlai_ext.files import json_lines, read_csv, read_human_scores, read_openers_file
from tests.support.shared_data import shared
from tests.support.user_error import error_line, user_error
from tests.support.written import written


@pytest.mark.parametrize(
    'data, rows',
    [
        ('\ufeff"a", b \r\n"x, y", 4 \r\n\r\n', [(2, 'x, y', '4')]),
        ('b,a\n1,x\u2028y\n', [(2, 'x\u2028y', '1')]),
        ('a,b\n\n1,\n', [(3, '1', '')]),
    ],
)
def test_files_of_other_programs_are_read(tmp_path, data, rows):
    path = written(tmp_path, 'x.csv', data)
    found = [(line, row['a'], row['b']) for line, row in read_csv(path, ['a', 'b'])]
    assert found == rows


@pytest.mark.parametrize(
    'data, problem',
    [
        (b'a,b\n1,2\n1,2,3\n', ':3: 3 cells'),
        (b'a,b\n1\n', ':2: 1 cells'),
        (b'a,b\n1,2\n\n"1,2\n', ':4: not a CSV row'),
        (b'a,b\n1,caf\xe9\n', ':2: not UTF-8'),
        (b'', ':1: the file is empty'),
        (None, 'No such file'),
    ],
)
def test_a_mistake_names_file_and_line(tmp_path, data, problem):
    path = tmp_path / 'x.csv'
    if data is not None:
        path.write_bytes(data)
    with user_error(f'{path}.*{problem}'):
        list(read_csv(path, ['a']))


# Human judgements

SCORES_HEADER = 'system,dimension,value\n'


@pytest.fixture
def read_scores(tmp_path):
    return lambda text: read_human_scores(written(tmp_path, 'h.csv', text))


def test_three_columns_are_enough_and_unsigned_judgements_may_be_many(read_scores):
    assert read_scores(
        SCORES_HEADER + 'a,Overall,3.5\nb,Overall,-1e-1\na,Overall,3.5\n'
    ) == [
        HumanJudgement('a', 'Overall', 3.5),
        HumanJudgement('b', 'Overall', -0.1),
        HumanJudgement('a', 'Overall', 3.5),
    ]


def test_all_columns_in_any_order_and_empty_ones_are_none(read_scores):
    text = (
        'value,rater,system,dialogue_id,dimension\n4,r1,a,d1,Overall\n5,,a,,Overall\n'
    )
    assert read_scores(text) == [
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
def test_a_bad_row_is_one_line(read_scores, rows, words):
    assert words in error_line(read_scores, SCORES_HEADER + rows)


def test_a_wrong_header_of_scores_is_one_line(read_scores):
    line = error_line(read_scores, 'system,dimensions,value\n')
    assert "unknown column 'dimensions'; did you mean" in line


def test_one_rater_judges_a_dialogue_once(read_scores):
    rows = 'a,Overall,3,r,d\na,Overall,3,r,e\na,Overall,4,r,d\n'
    with user_error(':4: the same judgement is in line 2'):
        read_scores('system,dimension,value,rater,dialogue_id\n' + rows)


# Openers, in both ways of writing

OPENERS_HEADER = 'conv_id,utterance_idx,utterance\n'
OFFICIAL = 'conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags\n'


@pytest.fixture
def read_openers(tmp_path):
    return lambda text: read_openers_file(written(tmp_path, 'my.csv', text))


@pytest.mark.parametrize(
    'split, number, too_short',
    [('test', 2547, ''), ('valid', 2769, 'hit:5771_conv:11543')],
)
def test_each_split_gives_its_pairs_and_names_what_gives_none(
    split, number, too_short, caplog
):
    found = read_openers_file(shared(f'empathetic_dialogues/fixed_{split}.csv'))
    assert len(found.openers) == number
    assert caplog.text.partition('no opener: ')[2].strip() == too_short


def test_the_words_are_those_of_another_copy_of_the_data():
    folder = shared('empathetic_dialogues')
    found = read_openers_file(folder / 'fixed_test.csv').openers
    both = 0
    for _, other in json_lines(folder / 'derived_test.jsonl'):
        if other['conv_id'] in found:
            both += 1
            texts = tuple(text.strip() for text in other['utterances'][:2])
            assert found[other['conv_id']] == texts
    assert both > 2500


ROWS = [
    # commas and pipes come back
    (
        'c,1,Well_comma_ yes_pipe_no \nc,2,  ok\nc,3,more\n',
        {'c': ('Well, yes|no', 'ok')},
    ),
    # quoted cells
    (
        'c,1,"He said ""hi"", then left"\n"c","2","ok"\n',
        {'c': ('He said "hi", then left', 'ok')},
    ),
    # a bare quotation mark is a character
    (
        'c,1,He said "hi" to me\nc,2,"Hi" is short\n',
        {'c': ('He said "hi" to me', '"Hi" is short')},
    ),
    # a quotation mark that is never closed swallows nothing
    (
        'c,1,"Oh\nc,2,no\nd,1,a\nd,2,b\n',
        {'c': ('"Oh', 'no'), 'd': ('a', 'b')},
    ),
    # a quoted cell goes over lines
    (
        'c,1,"one, and\ntwo"\nc,2,ok\nd,1,"one\ntwo"\nd,2,ok\n',
        {'c': ('one, and two', 'ok'), 'd': ('one two', 'ok')},
    ),
    # dialogues are interleaved
    (
        'c,1,a\nd,1,b\nc,2,x\nd,2,y\n',
        {'c': ('a', 'x'), 'd': ('b', 'y')},
    ),
]


@pytest.mark.parametrize('rows, openers', ROWS)
def test_rows_are_read_as_they_are_written(read_openers, rows, openers):
    assert read_openers(OPENERS_HEADER + rows).openers == openers


def test_official_files_are_split_at_commas_and_keep_their_quotes(read_openers):
    found = read_openers(
        OFFICIAL
        + 'c,1,sad,p,1,"Quoted",5|5|5,\n'
        + 'c,2,sad,p,2,she said "x" loudly,5|5|5,,a|b\n'
    )
    assert found.openers['c'] == ('"Quoted"', 'she said "x" loudly')


@pytest.mark.parametrize(
    'rows, words',
    [
        ('c,1,hi\nc,3,ho\n', ':3: column utterance_idx: 2 comes next in dialogue c'),
        (
            'c,,hi\n',
            ':2: column utterance_idx: 1 comes next in dialogue c, not nothing',
        ),
        (' ,1,hi\n', ':2: column conv_id: is empty'),
        ('c,1,hi\nc,2, \n', ':3: column utterance: is empty'),
        ('', 'no dialogues'),
        ('c,1,"a\nb"\nc,2\n', ':4: 2 cells'),
    ],
)
def test_a_row_that_cannot_be_read_is_one_line(read_openers, rows, words):
    assert words in error_line(read_openers, OPENERS_HEADER + rows)


def test_a_wrong_header_of_openers_is_one_line(read_openers):
    with user_error(":1: column 'utterance_idx' is missing; did"):
        read_openers('conv_id,utterance_id,utterance\nc,1,hi\n')


def test_short_dialogues_are_counted_and_named(read_openers, caplog):
    read_openers(OPENERS_HEADER + 'c,1,hi\nd,1,a\nd,2,b\ne,1,hi\n')
    assert 'my.csv: 2 dialogues' in caplog.text and 'c, e' in caplog.text
