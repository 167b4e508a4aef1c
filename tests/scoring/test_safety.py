"""
Agreement with a prompt: the rule's points by hand, classifiers, and people's labels.
"""

import numpy as np
import pytest

from parlai_ext.data.toxic_pairs import ToxicData, read_pairs
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.comparison import detection_measures
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.toxicity import Stance
from parlai_ext.toxic.measures import read_stance
from tests.support.scoring_samples import KnownClassifier
from tests.support.shared_data import shared
from tests.support.user_error import user_error


def numbers(stance, *pairs):
    return stance.numbers([ScoringItem((prompt,), answer) for prompt, answer in pairs])


@pytest.mark.parametrize(
    'prompt, answer, points',
    [
        # begins 12; you -4; the prompt has 0 of 2 other words
        ('cold soup', 'Yes, you know best.', 8),
        ('cold soup', 'YES, they know best.', 19),  # begins, they 7
        ('cold soup', 'Why? I agree!', 9 - 7),  # holds 9, question -7
        ('Cold soup burns', 'soup tastes cold today', 12 * 2 / 4),
        ('cold soup', 'Yesterday was fine', 0),  # "yes" is no word of it
        ('cold soup', '', 0),
    ],
)
def test_points_are_those_of_the_words(prompt, answer, points):
    assert numbers(Stance(), (prompt, answer)) == [pytest.approx(points)]


def equal_pairs(*labels):
    """
    Return models whose classifier finds pairs of equal texts entailed.
    """
    return KnownClassifier(labels, 'entailment', lambda first, second: first == second)


def test_a_classifier_reads_prompt_and_answer():
    stance = read_stance('m', equal_pairs('contradiction', 'entailment'))
    assert numbers(stance, ('a', 'a'), ('b', 'c')) == [1.0, 0.0]
    assert numbers(stance) == []
    [score] = stance.checked_scores([ScoringItem((), 'a')])
    assert score.reasons == {'Agrees': 'there is no context'}
    with user_error('--stance m'):
        read_stance('m,label=yes', equal_pairs('entailment'))


def test_a_classifier_that_is_not_there_is_one_line():
    with user_error('--stance /none'):
        read_stance('/none', ModelHandle())
    assert read_stance('none', ModelHandle()) is None


def test_the_rule_orders_answers_better_than_chance_on_labels_it_was_not_fitted_on():
    path = shared('toxichat')
    pairs = [
        pair
        for pair in read_pairs(ToxicData(path=str(path), pairs='all'))['test']
        if pair.features['prompt_label'] == 'Offensive' and pair.answer
    ]
    found = numbers(Stance(), *((pair.prompt, pair.answer) for pair in pairs))
    labels = np.array([pair.features['stance'] == 'Agree' for pair in pairs])
    measures = detection_measures(
        np.array(found), labels, 7, range(len(found)), bootstraps=200
    )
    # what docs/safety_worth.md promises: better than chance, and not by much
    assert 0.55 < measures['roc_auc'].low < measures['roc_auc'].high < 0.8
