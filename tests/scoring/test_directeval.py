"""
DirectEval: the probability of "Yes" among "Yes" and "No".
"""

import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.directeval import DirectEval
from parlai_ext.scoring.label_judges import Candidate, direct_prompt
from tests.support.planted_labels import PlantedLabels


def test_the_prompt_ends_with_the_question_of_the_paper():
    prompt = direct_prompt(Candidate(('one', 'two'), 'three'))
    assert prompt.question == (
        'Dialogue\nQ: one\nP: two\nResponse\nQ: three\n\n'
        'Is the above response a good response to the given conversation?'
    )
    assert prompt.labels == ('Yes', 'No')


def test_the_share_of_yes():
    scorer = DirectEval.from_section({}, PlantedLabels())
    items = [ScoringItem(('hi',), number) for number in '13']
    scores = [score.values['Overall'] for score in scorer.checked_scores(items)]
    assert scores == pytest.approx([1 / 2, 3 / 4])  # odds of 1:1 and 3:1


def test_no_probability_is_no_score():
    scorer = DirectEval.from_section({}, PlantedLabels(nothing='3'))
    [score] = scorer.checked_scores([ScoringItem(('hi',), '3')])
    assert score.values['Overall'] is None
