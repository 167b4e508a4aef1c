"""
Questionnaires: the shipped ones, and mistakes in a file of one's own.
"""

import pytest

from parlai_ext.people.questionnaire import read_questionnaire
from tests.support.parlai_crowdsourcing import parlai_constant
from tests.support.user_error import user_error

PAIR = 'kind: pair\nquestions:\n  Good:\n    text: Which?\n    first: x\n'


def test_acute_has_parlais_wordings():
    kinds = parlai_constant('acute_eval/fast_eval.py', 'ACUTE_EVAL_TYPES')
    asked = {
        (wording.text, *wording.answers)
        for wording in read_questionnaire('acute').questions
    }
    theirs = {
        (kind['question'], kind['s1_choice'], kind['s2_choice'])
        for name, kind in kinds.items()
        if name not in ('roleplay', 'image')
    }
    assert asked == theirs


def test_the_papers_study_has_five_answers_to_four_questions():
    asked = read_questionnaire('likert_2022')
    assert [len(wording.answers) for wording in asked.questions] == [5] * 4


def test_a_question_may_have_labels_and_values_of_its_own(tmp_path):
    path = tmp_path / 'mine.yaml'
    path.write_text(
        'kind: likert\nlabels: [bad, fair, good]\nquestions:\n'
        '  Good: {text: How}\n'
        '  Human: {text: Who, labels: [bot, unsure], values: [0, 0.5]}\n'
    )
    asked = read_questionnaire(str(path))
    answers = {w.dimension: asked.answers_to(w) for w in asked.questions}
    assert answers == {'Good': ('1', '2', '3'), 'Human': ('1', '2')}
    assert asked.question('Good').value('3') == 3
    assert asked.question('Human').name('2') == '0.5'


@pytest.mark.parametrize(
    'text, place',
    [
        ('kind: triple\nquestions: {}', 'kind'),
        ('kind: pair\nquestions: {}', 'questions'),
        (PAIR, 'questions.Good'),
        (PAIR + '    second: y\nlabels: [a, b]', 'labels'),
        ('kind: likert\nquestions: {Good: {text: How}}', 'labels'),
        ('kind: likert\nlabels: [a]\nquestions: {Good: {text: How}}', 'labels'),
        ('kind: likert\nlabels: [a, b]\nties: true\nquestions: {}', 'ties'),
        (
            'kind: likert\nlabels: [a, b]\nquestions: {Good: {text: How, first: x}}',
            'questions.Good.first',
        ),
        (PAIR + '    second: y\nvalues: [1, 2]', 'values'),
        (PAIR + '    second: y\ntie: equal', 'tie'),
        (
            'kind: likert\nlabels: [a, b]\nunrelated: x\nquestions: {}',
            'unrelated',
        ),
        (
            'kind: likert\nlabels: [a, b]\nvalues: [1]\nquestions: {A: {text: x}}',
            'values',
        ),
        (
            'kind: likert\nlabels: [a, b]\nvalues: [1, x]\nquestions: {A: {text: x}}',
            r'values\[1\]',
        ),
        (
            'kind: likert\nlabels: [a, b]\nquestions: {A: {text: x, values: [1]}}',
            'questions.A.values',
        ),
        (PAIR + '    second: y\n    labels: [a, b]', 'questions.Good.labels'),
    ],
)
def test_a_mistake_is_refused_by_its_key(tmp_path, text, place):
    path = tmp_path / 'mine.yaml'
    path.write_text(text)
    with user_error(rf'mine\.yaml:\d+: {place}: '):
        read_questionnaire(str(path))


def test_an_unknown_questionnaire_is_refused():
    with user_error('acute'):
        read_questionnaire('acuta')
