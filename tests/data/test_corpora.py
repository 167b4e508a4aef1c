"""
Dialogue corpora, in small files in their authors' formats.
"""

import json

import pytest

from parlai_ext.data.corpora import (
    annotated_contexts,
    held_out_dialogues,
    read_corpus,
    without_overlap,
    without_token_spaces,
)
from tests.support.user_error import user_error
from tests.support.written import written, zip_of

LINE = 'Hi , it ’ s me . __eou__ Really ? __eou__\n'
ROW = {
    'context': ['Is it far?', 'No.'],
    'positive_responses': ['Good.'],
    'adversarial_negative_responses': ['It is far .'],
}


def archive(folder, split, text):
    members = [(f'{split}/dialogues_{split}.txt', text)]
    return written(folder, f'{split}.zip', zip_of(members))


def test_a_folder_and_an_archive_of_dailydialog(tmp_path):
    path = archive(tmp_path, 'validation', LINE)
    expected = [("Hi, it's me.", 'Really?')]
    assert read_corpus('dailydialog', tmp_path, 'validation') == expected
    assert read_corpus('dailydialog', path, 'validation') == expected


@pytest.mark.parametrize(
    'spaced, plain',
    [
        ("I don ' t know .", "I don't know."),
        ("we ' ll see , she ' s in", "we'll see, she's in"),
        ("'Tis a dog ' s life", "'Tis a dog's life"),
        ('He said : no !', 'He said: no!'),
        ("the ' best ' one", "the ' best ' one"),
    ],
)
def test_spaces_of_a_tokenizer_are_taken_out(spaced, plain):
    assert without_token_spaces(spaced) == plain


def test_personas_are_no_turns_of_convai2(tmp_path):
    written(
        tmp_path,
        'valid_none_original_no_cands.txt',
        '1 your persona: i sing.\n2 hi\thello\n3 bye\tso long\n1 hey\tyes\n',
    )
    assert read_corpus('convai2', tmp_path, 'validation') == [
        ('hi', 'hello', 'bye', 'so long'),
        ('hey', 'yes'),
    ]


def test_wrong_responses_may_be_absent(tmp_path):
    [one] = annotated_contexts(written(tmp_path, 'dev.json', ROW))
    assert one.context == ('Is it far?', 'No.')
    assert one.adversarial == ('It is far.',)
    assert one.random == ()


@pytest.mark.parametrize(
    'row, key',
    [
        ({**ROW, 'context': 'text'}, ':2: context'),
        ({**ROW, 'positive_responses': []}, ':2: positive_responses'),
        ([], ':2: '),
    ],
)
def test_a_wrong_line_is_named(tmp_path, row, key):
    text = json.dumps(ROW) + '\n' + json.dumps(row)
    with user_error(key):
        annotated_contexts(written(tmp_path, 'dev.json', text))


def test_a_folder_without_the_split_is_refused(tmp_path):
    archive(tmp_path, 'train', LINE)
    with user_error('test.zip'):
        read_corpus('dailydialog', tmp_path, 'test')


def test_dialogues_that_share_two_successive_turns_are_left_out():
    long = 'I would like to book a table for two, please.'
    held = [('Good evening.', long, 'Certainly.')]
    sharing = ('Hello.', 'GOOD EVENING', long)
    apart = ('Good evening.', 'Hello.', long)  # the turns do not follow each other
    short = ('Thanks.', 'Bye.')
    dialogues = [sharing, apart, short]
    longer = (*short, 'Bye.')
    assert without_overlap(dialogues, [*held, longer]) == [apart, short]


def test_a_whole_dialogue_is_left_out_however_short_it_is():
    short, chinese = ('Thanks.', 'Bye.'), ('你今天去哪里了？', '我去了图书馆。')
    assert without_overlap([('thanks', 'bye'), short], [short]) == []
    assert without_overlap([('好的。', *chinese)], [(*chinese, '真的吗？')]) == []


def test_a_held_out_file_is_of_its_own_split(tmp_path):
    path = archive(tmp_path, 'test', LINE)
    assert held_out_dialogues('dailydialog', path) == [("Hi, it's me.", 'Really?')]
    file = written(tmp_path, 'dev.json', ROW)
    assert held_out_dialogues('dailydialog', file) == [('Is it far?', 'No.')]


def test_signs_of_letters_tell_turns_apart():
    held = ('क' * 30, 'का', 'e\u0301')
    # another vowel; an accent that is written in another way
    apart, same = ('क' * 30, 'की'), ('क' * 30, 'का', '\xe9')
    assert without_overlap([apart, same], [held]) == [apart]
