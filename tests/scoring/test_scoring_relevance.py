"""
Relevance: the cosine of two sentence embeddings.
"""

import numpy as np
import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.relevance import Relevance
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_encoders import make_encoder
from tests.support.tiny_models import sentences

KNOWN = {
    '': (0, 0),
    'north': (0, 1),
    'east': (1, 0),
    'north east': (1, 1),
    'nowhere': (0, 0),
}


class KnownEncoder:
    """
    Models with one `Embedder`, whose vectors are written down above.
    """

    signature = 'known'

    def embedder(self, name):
        return self

    def encode(self, texts):
        return np.array([KNOWN[text] for text in texts], np.float32)

    def cut_tokens(self, texts):
        return [0] * len(texts)


def relevance(context, response, **options):
    scorer = Relevance.from_section({'encoder': 'known', **options}, KnownEncoder())
    [score] = scorer.checked_scores([ScoringItem(context, response)])
    return score


@pytest.mark.parametrize(
    ('response', 'expected'),
    [('north', 1), ('east', 0), ('north east', 0.5**0.5)],
)
def test_cosines_by_pencil(response, expected):
    score = relevance(('east', 'north'), response)
    assert score.values['Relevance'] == pytest.approx(expected, abs=1e-7)


def test_against_the_context_its_turns_are_joined():
    # against 'east' alone the cosine would be 0
    score = relevance(('north', 'east'), 'north', against='context')
    assert score.values['Relevance'] == pytest.approx(0.5**0.5)


def test_against_the_nearest_the_most_similar_turn_counts():
    turns = ('north', 'north east', 'east', 'nowhere')
    assert relevance(turns, 'north', against='nearest').values['Relevance'] == 1
    # the first of five turns is too long ago
    score = relevance((*turns, 'east'), 'north', against='nearest')
    assert score.values['Relevance'] == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(
    ('context', 'why'), [((), 'no context'), (('nowhere',), 'zero')]
)
def test_no_context_or_a_zero_vector_gives_no_score(context, why):
    score = relevance(context, 'north')
    assert score.values == {'Relevance': None}
    assert why in score.reasons['Relevance']


def test_agreement_with_numpy_on_a_real_encoder(tmp_path):
    folder = make_encoder(tmp_path / 'encoder')
    handle = models_on_cpu()
    texts = sentences(8)
    items = [ScoringItem(tuple(texts[:k]), texts[k]) for k in range(1, 8)]
    scores = Relevance.from_section({'encoder': folder}, handle).checked_scores(items)
    vectors = [handle.embedder(folder).encode([text])[0] for text in texts]
    for k, score in enumerate(scores, 1):
        first, second = vectors[k].astype(float), vectors[k - 1].astype(float)
        cosine = np.dot(first, second) / np.linalg.norm(first) / np.linalg.norm(second)
        assert score.values['Relevance'] == pytest.approx(cosine, abs=1e-5)
