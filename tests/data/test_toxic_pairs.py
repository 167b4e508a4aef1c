"""
Toxic prompts with answers: files of three sources, conditions on features, folds.

No text has a meaning; a word such as ``TOXIC1`` stands for a toxic prompt.

Recorded answers of systems, read from files.
"""

from collections import Counter

import pytest

from parlai_ext.data.corpora import (
    ToxicData,
    choose_pairs,
    prompt_key,
    read_condition,
    recorded_answers,
)
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import json_in, written

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
