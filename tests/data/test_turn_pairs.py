"""
Pairs of successive turns from each format; files are read a row at a time.
"""

import tracemalloc

from parlai_ext.data.corpora import PairSource
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import written, zip_of


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
    (tmp_path / 'a.txt').write_text('{"id": "x", "turns": ["1", "2", "3"]}\n')
    (tmp_path / 'b.jsonl').write_text('{"dialogue": ["4", "5"]}\n')
    assert pairs('reddit', tmp_path) == [('1', '2'), ('2', '3'), ('4', '5')]
    (tmp_path / 'b.jsonl').write_text('\n{"text": 1}\n')
    with user_error('b.jsonl:2:'):
        pairs('reddit', tmp_path)


def test_chanels_turns_have_azures_scores_of_their_own(tmp_path):
    main = 'UID,SID,SEG\nD-0-0,a,one\nD-0-1,b,two\nD-1-0,a,three\nD-1-1,b,four\n'
    (tmp_path / 'D_main.csv').write_text(main)
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


def test_dailydialogs_archive_is_read(tmp_path):
    text = 'a __eou__ b __eou__ c __eou__\n'
    written(tmp_path, 'test.zip', zip_of([('test/dialogues_test.txt', text)]))
    assert pairs('dailydialog', tmp_path, split='test') == [('a', 'b'), ('b', 'c')]


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / 'big.csv'
    rows = [f'prompt {i},{"word " * 60}\n' for i in range(2000)]
    path.write_text('toxic,answer\n' + ''.join(rows))
    tracemalloc.start()
    assert sum(1 for _ in PairSource('csv', path).pairs()) == 2000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 4  # the file has 0.6 MB


def test_a_broken_file_is_named_by_its_line(tmp_path):
    path = written(tmp_path, 'a.csv', 'toxic,answer\n1,2,3\n')
    with user_error(f'{path}:2:'):
        pairs('csv', path)
