"""
Human-centred metrics: by pencil, with an encoder whose vectors are planted.
"""

import math

import numpy as np
import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.human_centered import (
    AGREEABLE,
    EMOTIONS,
    EMPATHIC,
    HumanCentered,
    style_matching,
)


class Planted:
    """
    Emotions are axes; kind sentences point along the first, unkind ones against it.
    """

    def embedder(self, name):
        return self

    def encode(self, texts):
        kind = {*AGREEABLE[0], *EMPATHIC[0]}
        rows = np.zeros((len(texts), len(EMOTIONS)))
        for row, text in zip(rows, texts, strict=True):
            if text in EMOTIONS:
                row[EMOTIONS.index(text)] = 1
            elif text in ('joyful', *kind):
                row[0] = 1
            elif text == 'torn':
                row[:] = 1
            elif text:
                row[0] = -1
        return rows


def scores(context, response):
    scorer = HumanCentered.from_section({})
    scorer.models = Planted()
    (score,) = scorer.score([ScoringItem(context, response)])
    return score.values


def test_a_text_of_all_emotions_has_the_largest_entropy():
    assert scores(('joyful',), 'torn')['Emotional Entropy'] == pytest.approx(
        math.log(8)
    )
    # e^10 beside seven times 1: nearly all is joy
    assert scores(('torn',), 'joyful')['Emotional Entropy'] < 0.01


def test_emotions_that_are_the_same_match():
    values = scores(('joyful',), 'joyful')
    assert values['Emotion Matching'] == pytest.approx(1)
    # cosines with the kind sentences are 1, with the unkind ones -1
    assert values['Agreeableness'] == values['Empathy'] == pytest.approx(2)


def test_without_a_turn_before_nothing_matches():
    values = scores((), 'joyful')
    assert values['Style Matching'] is values['Emotion Matching'] is None
    assert values['Emotional Entropy'] is not None
    assert set(scores(('joyful',), ' ').values()) == {None}


def test_style_matching_by_pencil():
    # "i": 1/2 and 1/4 of the words, 1 - (1/4) / (3/4); "the": 0 and 1/4, 0; the other
    # seven classes are in neither text, 1
    assert style_matching('I sing', 'I saw the moon') == pytest.approx(
        (2 / 3 + 0 + 7) / 9, abs=1e-3
    )


def test_equal_emotions_match_nothing():
    # of one constant side, Spearman's rho is not defined
    assert scores(('joyful',), 'torn')['Emotion Matching'] is None
