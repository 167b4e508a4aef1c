"""
Dialogue corpora, in small files in their authors' formats; what is trained on.

Pairs of successive turns from each format; files are read a row at a time.
"""

import json
import tracemalloc

import pytest

from parlai_ext.data.corpora import (
    PairSource,
    annotated_contexts,
    held_out_dialogues,
    read_corpus,
    without_overlap,
    without_token_spaces,
)
from parlai_ext.data.imported_dialogues import read_dialogue_texts
from tests.support.shared_data import shared
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
    assert pairs('dailydialog', tmp_path, split='validation') == expected


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
    [one] = annotated_contexts(file)  # without random responses, which may be absent
    assert one.adversarial == ('It is far.',)


# --- the utterances of dialogues to train on ------------------------------------------

LABELLED = 'Hi ! __eou__ Hello . __eou__\nTea ? __eou__ No . __eou__ Why ? __eou__\n'


def test_an_archive_of_dailydialog_has_files_of_labels_too(tmp_path):
    labels = ('train/dialogues_act_train.txt', '3 4\n1 2 3\n')
    hidden = ('__MACOSX/train/._dialogues_train.txt', b'\xff')
    members = [labels, hidden, ('train/dialogues_train.txt', LABELLED)]
    path = written(tmp_path, 'train.zip', zip_of(members))
    assert read_dialogue_texts([str(path)]) == [
        ('Hi !', 'Hello .'),
        ('Tea ?', 'No .', 'Why ?'),
    ]


def test_files_that_can_be_imported(tmp_path):
    turns = [{'id': 'a', 'text': 'Hi!'}, {'id': 'b', 'text': 'Hello.'}]
    path = written(tmp_path, 'chats.jsonl', {'dialog': [turns]})
    assert read_dialogue_texts([str(path)]) == [('Hi!', 'Hello.')]


def test_a_file_without_a_dialogue_is_named(tmp_path):
    path = tmp_path / 'short.txt'
    path.write_text('alone __eou__\n')
    with user_error('short.txt'):
        read_dialogue_texts([str(path)])


def test_dailydialog_has_the_published_number_of_dialogues():
    # Li et al. 2017: 1,000 validation dialogues
    path = shared('dailydialog/validation.zip')
    assert len(read_dialogue_texts([str(path)])) == 1000


# --- pairs of successive turns --------------------------------------------------------


def pairs(form, path, **more):
    return [(p.prompt, p.answer) for p in PairSource(form, path, **more).pairs()]


def test_a_csv_file_keeps_its_other_columns(tmp_path):
    path = written(tmp_path, 'a.csv', 'id,q,a,mood\n7,"one, two",three,calm\n')
    source = PairSource('csv', path, prompt_column='q', answer_column='a')
    [pair] = source.pairs()
    assert (pair.id, pair.prompt, pair.answer) == ('7', 'one, two', 'three')
    assert pair.features == {'mood': 'calm'}


def test_cornells_conversations_are_looked_up_in_its_lines(tmp_path):
    lines = 'L3 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ third\n'
    lines += 'L2 +++$+++ u1 +++$+++ m0 +++$+++ B +++$+++ second\n'
    lines += 'L1 +++$+++ u0 +++$+++ m0 +++$+++ A +++$+++ caf\xe9\n'
    (tmp_path / 'movie_lines.txt').write_bytes(lines.encode('iso-8859-1'))
    file = tmp_path / 'movie_conversations.txt'
    file.write_text("u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1', 'L2', 'L3']\n")
    assert pairs('cornell', tmp_path) == [('caf\xe9', 'second'), ('second', 'third')]
    file.write_text("u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L1', 'L9']\n")
    with user_error('movie_conversations.txt:1:'):
        pairs('cornell', tmp_path)


def test_twitters_odd_lines_are_prompts(tmp_path):
    path = written(tmp_path, 'twitter_en_big.txt', 'p1\na1\np2\na2\nleft over\n')
    assert pairs('twitter', path) == [('p1', 'a1'), ('p2', 'a2')]


def test_reddits_turns_are_paired_within_a_dialogue(tmp_path):
    written(tmp_path, 'a.txt', '{"id": "x", "turns": ["1", "2", "3"]}\n')
    written(tmp_path, 'b.jsonl', '{"dialogue": ["4", "5"]}\n')
    assert pairs('reddit', tmp_path) == [('1', '2'), ('2', '3'), ('4', '5')]
    written(tmp_path, 'b.jsonl', '\n{"text": 1}\n')
    with user_error('b.jsonl:2:'):
        pairs('reddit', tmp_path)


def test_chanels_turns_have_azures_scores_of_their_own(tmp_path):
    main = 'UID,SID,SEG\nD-0-0,a,one\nD-0-1,b,two\nD-1-0,a,three\nD-1-1,b,four\n'
    written(tmp_path, 'D_main.csv', main)
    rows = ['UID,SEG,profanity_terms,offensive_score', 'D-0-0,one,None,.1']
    rows += ['D-0-1,two,None,.2', 'D-1-0,three,x,.3', 'D-1-1,four,None,.4']
    beside = tmp_path / 'D_content_moderator.csv'
    beside.write_text('\n'.join(rows))
    both = list(PairSource('chanel', tmp_path).pairs())
    assert [(p.prompt, p.answer) for p in both] == [('one', 'two'), ('three', 'four')]
    scores = [
        (p.features['toxic_azure_score'], p.features['answer_azure_score'])
        for p in both
    ]
    assert scores == [('.1', '.2'), ('.3', '.4')]
    beside.write_text('UID,SEG,profanity_terms,offensive_score\nD-5-0,x,None,1\n')
    with user_error('D-5-0 where D-0-0'):
        pairs('chanel', tmp_path)


def test_chanels_own_files_are_read():
    source = PairSource('chanel', shared('chanel_jsalt') / 'MEENAD_main.csv')
    # PROVENANCE: 3,675 utterances in 193 dialogues
    assert sum(1 for _ in source.pairs()) == 3675 - 193


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / 'big.csv'
    rows = [f'prompt {i},{"word " * 60}\n' for i in range(2000)]
    path.write_text('toxic,answer\n' + ''.join(rows))
    tracemalloc.start()
    assert sum(1 for _ in PairSource('csv', path).pairs()) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 4  # the file has 0.6 MB
