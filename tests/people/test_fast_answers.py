"""
Answers that a rating page recorded as given faster than anybody reads.
"""

import pytest

from parlai_ext.commands.export_annotation import ExportAnnotation
from parlai_ext.commands.import_annotation import ImportAnnotation
from parlai_ext.commands.import_judgements import ImportJudgements
from parlai_ext.commands.rate_dialogues import RateDialogues
from parlai_ext.core.records import record_to_json
from parlai_ext.people import rating_set
from parlai_ext.people.given_answers import FastAnswers, GivenAnswer
from tests.support.report_example import example_run
from tests.support.simulated_annotators import answers_file, read_key
from tests.support.user_error import user_error

STRENGTHS = {'quill': 1.0, 'raven': 2.5, 'tern': 4.0}
OPENERS = [f'opener {k}' for k in range(4)]


@pytest.fixture
def rated(tmp_path):
    """
    A run with a rating set of three pairs, its key, and a folder for answers.
    """
    example_run(tmp_path / 'run', tuple(STRENGTHS), openers=OPENERS)
    RateDialogues.main(
        run_dir=tmp_path / 'run', questionnaire='overall_pair', num_items=3
    )
    (tmp_path / 'answers').mkdir()
    return tmp_path, read_key(tmp_path / 'run')


def give(folder, key, annotator, *times):
    """
    Write the answers of an annotator who took these seconds for each item.
    """
    rows = [
        {'item': item, 'dimension': 'Overall', 'answer': 'a', 'seconds': seconds}
        for item, seconds in zip(key['items'], times, strict=True)
    ]
    answers_file(folder / 'answers', key, annotator, STRENGTHS, answers=rows)


def imported(folder, **options):
    return ImportJudgements.main(
        run_dir=folder / 'run',
        answers=[str(folder / 'answers')],
        bootstraps=20,
        **options,
    )


def test_fast_answers_are_named_by_annotator_and_counted(rated, capsys):
    folder, key = rated
    give(folder, key, 'Ann', 0.3, 0.3, 8.0)
    give(folder, key, 'Bob', 5.0, 2.0, 1.9)
    give(folder, key, 'Cem', 5.0, 6.0, None)
    (ranking,) = imported(folder)
    told = capsys.readouterr().out
    assert ranking.num_answers == 9
    assert '3 of 9 answers were given in less than 2 s' in told
    assert '(Ann 2 of 3, Bob 1 of 3); they are counted; --drop-fast true' in told
    assert 'Cem' not in told


def test_fast_answers_are_left_out_where_that_is_asked_for(rated, capsys):
    folder, key = rated
    give(folder, key, 'Bob', 5.0, 2.0, 2.0)
    imported(folder)
    give(folder, key, 'Ann', 0.3, 0.3, 8.0)
    imported(folder, min_seconds=0)
    # nothing is said of answers that took their time
    assert 'less than' not in capsys.readouterr().out
    (ranking,) = imported(folder, drop_fast=True, min_seconds=1.0)
    assert ranking.num_answers == 4
    assert '2 of 6 answers' in capsys.readouterr().out
    with user_error(r'no answer .* 6 of 6 answers'):
        imported(folder, drop_fast=True, min_seconds=9.0)


def test_twenty_annotators_are_named_at_most():
    fast = [
        GivenAnswer('1', 'Overall', 'a', seconds=0.5, annotator=f'a{k:02}')
        for k in range(23)
    ]
    answers, (note,) = FastAnswers().checked(fast)
    assert len(answers) == 23
    assert 'a19 1 of 1, … (23 annotators)' in note and 'a20' not in note


def test_pages_about_recorded_answers_are_checked_in_the_same_way(tmp_path, capsys):
    source = tmp_path / 'given.csv'
    source.write_text(
        'system,prompt,answer\n'
        + ''.join(f'{name},p{k},{name} {k}\n' for name in 'xy' for k in range(4))
    )
    study = tmp_path / 'study'
    none = {'toxic_controls': 0, 'shuffled_controls': 0}
    ExportAnnotation.main(answers=[str(source)], format='page', out=str(study), **none)
    key = record_to_json(rating_set.read_key(study))
    (dimension,) = [question['dimension'] for question in key['questions']]
    rows = [
        {'item': item, 'dimension': dimension, 'answer': 'a', 'seconds': seconds}
        for item, seconds in zip(key['items'], (0.3, 9, 9, 9), strict=True)
    ]
    path = answers_file(tmp_path, key, 'Ann', {'x': 1, 'y': 2}, answers=rows)
    options = {'key': str(study), 'answers': [str(path)], 'bootstraps': 20}
    assert ImportAnnotation.main(**options).num_answers == 4
    assert '(Ann 1 of 4); they are counted' in capsys.readouterr().out
    assert ImportAnnotation.main(**options, drop_fast=True).num_answers == 3
    options['answers'] *= 2  # sent twice
    assert ImportAnnotation.main(**options).num_answers == 4
    assert '4 answers were given again later' in capsys.readouterr().out
