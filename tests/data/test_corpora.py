"""
Dialogue corpora, in small files in their authors' formats; what is trained on; and
toxic prompts with answers.
"""

import json
import tracemalloc
from collections import Counter

import pytest

from parlai_ext.data.corpora import (
    PairSource,
    ToxicData,
    annotated_contexts,
    choose_pairs,
    held_out_dialogues,
    prompt_key,
    read_condition,
    read_corpus,
    recorded_answers,
    without_overlap,
    without_token_spaces,
)
from parlai_ext.data.imported_dialogues import read_dialogue_texts
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import json_in, written, zip_of

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


# Toxic prompts with answers: three sources, conditions on features, folds

HEADER = 'id,toxic,answer,toxic_ner,answer_ner,ratio_lengths,answer_emotion,'
HEADER += 'answer_perspective_score\n'
ROWS = (
    'a,TOXIC1 Ann,dear Bob,TOXIC1 [PERSON],dear [PERSON],1.0,neutral,0.1\n'
    'b,TOXIC2,no thanks,TOXIC2,N.A.,2.0,happiness,0.2\n'
    'c,TOXIC3,"well, well",TOXIC3,"well , well",2.0,anger,0.6\n'
    'd,TOXIC4,fine,TOXIC4,fine,1.0,,NaN\n'
)


def track(folder, rows=ROWS, name='moviedic_test.csv'):
    return written(folder, name, HEADER + rows)


def chosen(path, fold='test', **options):
    return choose_pairs(ToxicData(path=str(path), **options), fold)


def ids(path, fold='test', **options):
    return ''.join(pair.id for pair in chosen(path, fold, **options).pairs)


def test_the_layout_of_the_track_is_read(tmp_path):
    [first, *_, last] = chosen(track(tmp_path)).pairs
    assert (first.prompt, first.answer) == ('TOXIC1 Ann', 'dear Bob')
    assert first.features['answer_emotion'] == 'neutral'
    assert 'toxic_ner' not in first.features  # a toxic text; features may be shown
    assert last.features['answer_perspective_score'] == 'NaN'


def test_masked_columns_are_texts_and_pairs_without_one_are_left_out(tmp_path):
    masked = chosen(track(tmp_path), masked=True)
    assert masked.pairs[0].answer == 'dear [PERSON]'
    assert masked.left_out == {'no answer': 1}


@pytest.mark.parametrize(
    'options, left',
    [
        ({'max_answer_toxicity': 0.3}, 'ab'),
        ({'emotion': ('Neutral',)}, 'a'),
        ({'where': ('answer_emotion=anger|happiness',)}, 'bc'),
        ({'where': ('answer_emotion!=anger',)}, 'ab'),  # d has no emotion
        ({'where': ('ratio_lengths<=1', 'answer_perspective_score<0.5')}, 'a'),
        ({'where': ('ratio_lengths=2',)}, 'bc'),
        ({'where': ('ratio_lengths>1',), 'max_answer_toxicity': 0.2}, 'b'),
    ],
)
def test_conditions_choose_pairs_and_missing_values_do_not_pass(
    tmp_path, options, left
):
    assert ids(track(tmp_path), **options) == left


def test_a_condition_on_a_column_that_is_not_there_names_the_nearest(tmp_path):
    with user_error("'ratio_length'.*'ratio_lengths'"):
        ids(track(tmp_path), where=('ratio_length<2',))


@pytest.mark.parametrize('text', ['ratio', 'ratio<', '<2', 'ratio<two'])
def test_a_text_that_is_no_condition_is_refused(text):
    with user_error('--where'):
        read_condition(text)


def test_conditions_that_leave_nothing_say_which(tmp_path):
    with user_error('left out: 4 by --max-answer-toxicity 0'):
        ids(track(tmp_path), max_answer_toxicity=0.0)


def test_other_column_names_are_options(tmp_path):
    path = tmp_path / 'own_test.csv'
    path.write_text('question,reply,mood\nTOXIC,hello,calm\n')
    [pair] = chosen(path, prompt_column='question', answer_column='reply').pairs
    assert (pair.prompt, pair.answer) == ('TOXIC', 'hello')
    assert pair.features == {'mood': 'calm'}


def test_one_file_is_split_by_prompt_and_every_pair_is_in_one_fold(tmp_path):
    rows = ''.join(f'{i},TOXIC{i // 2},b{i},,,1,neutral,0.1\n' for i in range(1600))
    data = track(tmp_path, rows, 'pairs.csv')
    folds = [chosen(data, fold).pairs for fold in ('train', 'valid', 'test')]
    assert sum(map(len, folds)) == 1600
    prompts = [{pair.prompt for pair in pairs} for pairs in folds]
    assert len(set.union(*prompts)) == sum(map(len, prompts))
    # of 800 prompts 120 are expected in each, with a standard deviation of 10
    assert all(80 < len(prompts[place]) < 160 for place in (1, 2))


def test_a_prompt_that_another_source_tests_is_not_trained_on(tmp_path):
    ending = ',,,1.0,,NaN\n'
    test = track(tmp_path, f'e,TOXIC5,ok{ending}')
    rows = f'f,toxic5!,ok{ending}g,TOXIC6,ok{ending}'
    both = f'{track(tmp_path, rows, "twitter_train.csv")},{test}'
    assert ids(both, 'train') == 'g'
    assert ids(both, 'train', share_prompts=True) == 'fg'
    with user_error('nowhere'):
        ids(f'{test},nowhere')


@pytest.mark.parametrize(
    'first, second, same',
    [
        ('caf\u00e9', 'Cafe\u0301!', True),
        ('दिन', 'दीन', False),  # day, poor: they differ in a vowel sign
        ('😀', '😡', False),
    ],
)
def test_spellings_of_a_prompt_share_letters_with_their_marks(first, second, same):
    assert (prompt_key(first) == prompt_key(second)) == same


def test_a_folder_without_files_of_folds_is_one_line(tmp_path):
    with user_error('train, valid'):
        chosen(tmp_path)


def turn(number, label, stance='Neutral', **more):
    stances = {f'stance_label_towards_turn_{n}': stance for n in range(1, number)}
    text = {'turn_id': number, 'text': f' turn {number} \n', 'offense_label': label}
    return {**text, **stances, **more}


def test_toxichat_pairs_are_an_offensive_turn_and_a_safe_sensible_reply(tmp_path):
    row = {
        'reddit_thread': [turn(1, 'Offensive'), turn(2, 'Safe'), turn(3, 'Offensive')],
        'final_dgpt_response': turn(4, 'Safe', coherence='Not Plausible'),
        'final_gpt3_response': turn(4, 'Safe', 'Disagree', coherence='Plausible'),
    }
    written(tmp_path, 'test.jsonl', [row])
    pairs = chosen(tmp_path).pairs
    assert [(p.prompt, p.answer, p.context) for p in pairs] == [
        ('turn 1', 'turn 2', ()),
        ('turn 3', 'turn 4', ('turn 1', 'turn 2')),
    ]
    assert [p.features['speaker'] for p in pairs] == ['human', 'gpt3']


def test_an_answer_that_agrees_with_an_offensive_turn_is_not_polite(tmp_path):
    row = {'reddit_thread': [turn(1, 'Offensive'), turn(2, 'Safe', 'Agree')]}
    written(tmp_path, 'test.jsonl', [row])
    with user_error('no safe answer'):
        chosen(tmp_path)
    assert len(chosen(tmp_path, pairs='all').pairs) == 1


def test_a_broken_thread_is_named_by_its_line(tmp_path):
    written(tmp_path, 'test.jsonl', [{'reddit_thread': [{}, {}]}])
    with user_error('test.jsonl:1: no thread'):
        chosen(tmp_path)


def test_diasafety_pairs_are_those_that_its_own_file_counts():
    folder = shared('diasafety')
    rows = json_in(folder / 'test.json')
    counts = Counter((row['category'], row['label']) for row in rows)
    assert len(chosen(folder).pairs) == counts['Toxicity Agreement', 'Safe']
    # 501 unsafe test pairs: the paper's and PROVENANCE's count
    assert len(chosen(folder, pairs='all', where=('label=Unsafe',)).pairs) == 501


# --- recorded answers of systems ------------------------------------------------------


def answers_in(folder, name, text):
    return recorded_answers(str(written(folder, name, text)))


def test_csv_and_json_lines_hold_the_same_answers(tmp_path):
    table = 'system,prompt,answer,toxicity\nx,Hello  you,"Hi,\nthere",1\n'
    row = {'system': 'x', 'prompt': 'Hello you', 'answer': 'Hi, there'}
    answers = answers_in(tmp_path, 'a.csv', table)
    assert answers == answers_in(tmp_path, 'a.jsonl', [row])
    (answer,) = answers
    assert (answer.system, answer.prompt, answer.text) == tuple(row.values())


def test_a_file_without_systems_is_named_on_the_command_line(tmp_path):
    path = written(tmp_path, 'a.csv', 'prompt,answer\nHello,Hi\n')
    assert [a.system for a in recorded_answers(f'canned={path}')] == ['canned']


def test_diasafetys_labels_are_two_systems():
    answers = recorded_answers(f'said={shared("diasafety") / "test.json"}')
    names = [answer.system for answer in answers]
    # Toxicity Agreement of the test file: 149 Safe, 145 Unsafe
    assert (names.count('said_safe'), names.count('said_unsafe')) == (149, 145)


@pytest.mark.parametrize(
    'name, text, place',
    [
        ('a.csv', 'system,prompt\nx,P\n', 'a.csv:1: .*answer'),
        ('a.csv', 'system,prompt,answer\n,P,A\n', 'a.csv:2: system'),
        ('a.csv', 'system,prompt,answer\nx,,A\n', 'a.csv:2: prompt'),
        ('a.csv', 'system,prompt,answer\n', 'no answer'),
        ('a.jsonl', '{"system": "x", "prompt": "P"}\n', 'a.jsonl:1: answer'),
        ('a.json', '[{"context": "P", "gen_response": "A"}]', 'object 1'),
        ('a.json', '[{"context": "P"}]', 'object 1'),
        ('a.csv', 'system,id,answer,safety\nx,1,A,Prompt\n', 'a.csv:2: safety'),
        ('a.txt', 'x', r'\.csv'),
    ],
)
def test_a_mistake_is_refused_by_its_place(tmp_path, name, text, place):
    with user_error(place):
        answers_in(tmp_path, name, text)


def test_a_name_for_a_file_of_another_system_is_refused(tmp_path):
    path = written(tmp_path, 'a.csv', 'system,prompt,answer\nx,P,A\n')
    with user_error('a.csv:2: system'):
        recorded_answers(f'y={path}')
