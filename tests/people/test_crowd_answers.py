"""
Readers of what crowdsourcing tasks record.
"""

import pytest

from parlai_ext.commands.import_judgements import ImportJudgements
from parlai_ext.people.given_answers import read_crowd_answers
from tests.support.model_chats import write_chat
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import csv_rows, written

LONG = 'Who would you prefer to talk to for a long conversation?'
HEADER = 'worker,question,correct,winner,loser,is_onboarding'


def read(format, path):
    return read_crowd_answers(format, [str(path)], None)


def test_acutes_own_output_gives_its_own_grid():
    folder = shared('parlai_acute_eval') / 'expected_test_outputs'
    judgements = read('acute_eval', folder / 'test_full_csv.csv')
    (row,) = csv_rows(folder / 'test_significance_csv.csv')
    wins = [c.winner for c in judgements.comparisons]
    for k in '12':
        assert wins.count(row[f'model{k}']) == int(row[f'numwins{k}'])
    assert judgements.dimensions == ('Engaging',)
    # rows of the file name dialogues 4 and 7 first
    first = judgements.comparisons[0]
    names = first.first_dialogue, first.second_dialogue
    assert [name[:8] for name in names] == ['model1 4', 'model2 7']


def acute_file(folder, *rows):
    return written(folder, 'run.full.csv', '\n'.join([HEADER, *rows]))


def test_annotators_who_failed_the_onboarding_are_dropped(tmp_path):
    rows = [f'1,{LONG},False,bad,good,True', f'1,{LONG},-1,a,b,False']
    rows += [f'2,{LONG},True,good,bad,True', f'2,{LONG},-1,b,a,False']
    judgements = read('acute_eval', acute_file(tmp_path, *rows))
    assert [(c.rater, c.winner) for c in judgements.comparisons] == [('2', 'b')]
    assert '1 annotator failed' in judgements.notes[0]


def test_an_analysis_that_was_run_again_counts_once(tmp_path):
    rows = [f'1,{LONG},-1,{n},c,False,{k}' for k, n in enumerate('aab')]
    text = '\n'.join([f'{HEADER},pairing_id', *rows])
    written(tmp_path, 'monday.full.csv', text)
    written(tmp_path, 'tuesday.full.csv', f'{text}\n1,{LONG},-1,a,c,False,3')
    judgements = read('acute_eval', tmp_path)
    assert [c.winner for c in judgements.comparisons] == ['a', 'a', 'b', 'a']
    assert '3 answers' in judgements.notes[0]


def test_dialogues_of_two_batches_are_not_joined(tmp_path):
    for batch in 'xy':
        text = f'{HEADER},pairing_id,run_id\n1,{LONG},-1,a,b,False,3,{batch}'
        written(tmp_path, f'{batch}.full.csv', text)
    one, other = read('acute_eval', tmp_path).comparisons
    assert not {one.first_dialogue, one.item} & {other.first_dialogue, other.item}


@pytest.mark.parametrize(
    'row, column',
    [
        (f'1,{LONG},-1,a,a,False', 'loser'),
        (f'1,{LONG},-1,,a,False', 'winner'),
        (f'1,{LONG},-1,b,a,no', 'is_onboarding'),
    ],
)
def test_a_mistake_in_a_row_is_refused_by_line_and_column(tmp_path, row, column):
    with user_error(f'run.full.csv:2: column {column}'):
        read('acute_eval', acute_file(tmp_path, row))


def test_ratings_of_a_chat_answer_the_questions_in_order(tmp_path):
    write_chat(tmp_path, '7')
    ratings = read('model_chat', tmp_path).ratings
    [about] = {(r.system, r.rater, r.dialogue_id) for r in ratings}
    assert about == ('sysA', 'w1', '7')
    values = {'Fluency': 4, 'Specificity': 5, 'Sensibleness': 3, 'Overall': 4}
    assert {r.dimension: r.value for r in ratings} == values


def test_a_chat_that_failed_quality_control_is_dropped(tmp_path):
    write_chat(tmp_path, '6', bad_workers=['w1'])
    write_chat(tmp_path, '7', acceptability_violations=['all_caps'])
    write_chat(tmp_path, '8', acceptability_violations=[''])
    judgements = read('model_chat', tmp_path)
    assert {r.dialogue_id for r in judgements.ratings} == {'8'}
    assert [note[:20] for note in judgements.notes] == ['dropped: 1 dialogue '] * 2


@pytest.mark.parametrize('rating', ['4|5', '4|5|x|4'])
def test_a_wrong_rating_is_refused_by_its_place(tmp_path, rating):
    path = write_chat(tmp_path, '7', rating)
    with user_error(r'7_live\.json: dialog\[3\]\.final_rating'):
        read('model_chat', path)


def test_problems_of_turns_are_better_the_fewer_they_are(tmp_path):
    good, bad = (
        {'agent_idx': 1, 'text': 'x', 'problem_data': {'bucket_0': mark}}
        for mark in (False, True)
    )
    for name, turns in (('good', [good, good]), ('poor', [bad, good])):
        about = {'model_nickname': name}
        write_chat(tmp_path, name, dialog=turns, task_description=about)
    options = {'answers': [tmp_path], 'out': tmp_path / 'out'}
    (ranking,) = ImportJudgements.main(format='model_chat', **options, bootstraps=20)
    scores = {s.system: (s.rank, s.score) for s in ranking.standings}
    assert scores == {'good': (1, 0.0), 'poor': (2, 0.5)}


def agent_data(folder, annotator, known, marks):
    folder = folder / 'run' / 'hit' / annotator
    folder.mkdir(parents=True)
    turns = [
        {'text': 'Hi', 'agent_idx': 0, 'do_annotate': False},
        {'text': 'Yes', 'agent_idx': 1, 'do_annotate': True, 'other_metadata': known},
    ]
    turns[1] |= marks
    data = {'outputs': {'final_data': [{'subtask_index': 0, 'data': turns}]}}
    written(folder, 'agent_data.json', data)


def test_annotated_turns_are_those_of_the_exported_dialogue(tmp_path):
    known = {'system': 'sysA', 'dialogue_id': 'd1', 'utterance_index': 3}
    marks = {'bucket_0': True, 'none_all_good': False}
    agent_data(tmp_path, '11', known, marks)
    ratings = read('turn_annotations', tmp_path).ratings
    assert {(r.rater, r.dimension, r.value, r.utterance_index) for r in ratings} == {
        ('11', 'bucket_0', 1.0, 3),
        ('11', 'none_all_good', 0.0, 3),
    }
    agent_data(tmp_path, '12', None, marks)
    with user_error(r'data\[1\]\.other_metadata'):
        read('turn_annotations', tmp_path)
