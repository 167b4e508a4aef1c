"""
Openers from CSV files: both ways of writing, and every row that cannot be read.
"""

import pytest

from parlai_ext.files import json_lines, read_openers_file
from tests.support.shared_data import shared
from tests.support.user_error import error_line, user_error

HEADER = 'conv_id,utterance_idx,utterance\n'
OFFICIAL = 'conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags\n'


@pytest.fixture
def read(tmp_path):
    def read(text):
        (tmp_path / 'my.csv').write_bytes(text.encode())
        return read_openers_file(tmp_path / 'my.csv')

    return read


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
def test_rows_are_read_as_they_are_written(read, rows, openers):
    assert read(HEADER + rows).openers == openers


def test_official_files_are_split_at_commas_and_keep_their_quotes(read):
    found = read(
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
def test_a_row_that_cannot_be_read_is_one_line(read, rows, words):
    assert words in error_line(read, HEADER + rows)


def test_a_wrong_header_is_one_line(read):
    with user_error(":1: column 'utterance_idx' is missing; did"):
        read('conv_id,utterance_id,utterance\nc,1,hi\n')


def test_short_dialogues_are_counted_and_named(read, caplog):
    read(HEADER + 'c,1,hi\nd,1,a\nd,2,b\ne,1,hi\n')
    assert 'my.csv: 2 dialogues' in caplog.text and 'c, e' in caplog.text
