"""
HolisticEval's four metrics, against Hugging Face's own numbers and pencil.
"""

import math
from types import SimpleNamespace

import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.relevance import Holistic, diversity
from tests.support.fed_samples import string_logprob
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import KnownClassifier, reason_of, scores_of
from tests.support.tiny_models import sentences
from tests.support.user_error import user_error

TEXTS = tuple(sentences(5))
ITEMS = [ScoringItem(TEXTS[:k], TEXTS[k]) for k in range(1, 5)]


LABELS = ('Entailment', 'NEUTRAL', 'Contradiction')


def scored(folder, items, classifier=None, **options):
    """
    Return the scores by a real judge, and a classifier that is made up.
    """
    models = SimpleNamespace(
        likelihood=models_on_cpu().likelihood, classifier=lambda name: classifier
    )
    options |= {'classifier': 'made up'} if classifier else {}
    return scores_of('holistic', items, models, judge_model_file=folder, **options)


def test_coherence_and_fluency_are_those_of_the_program(gpt2_folder):
    for item, score in zip(ITEMS, scored(gpt2_folder, ITEMS), strict=True):
        context = '\n'.join(item.context)
        both, _ = string_logprob(gpt2_folder, f'{context} {item.response}')
        alone, _ = string_logprob(gpt2_folder, context)
        assert score.values['Coherence'] == pytest.approx(both - alone, rel=1e-4)
        total, n = string_logprob(gpt2_folder, item.response)
        assert score.values['Fluency'] == pytest.approx(total / n, rel=1e-4)


@pytest.mark.parametrize('times, share', [(4, 0.75), (0.5, 0)])
def test_a_cutoff_counts_0_and_what_is_certain_1(gpt2_folder, times, share):
    # the program's (max(x, c) - c) / |c| with c = 4 x, and with c = x / 2
    [raw] = scored(gpt2_folder, ITEMS[:1])
    names = ('Coherence', 'Fluency')
    given = {f'{name.lower()}_cutoff': times * raw.values[name] for name in names}
    [score] = scored(gpt2_folder, ITEMS[:1], **given)
    assert [score.values[name] for name in names] == pytest.approx([share] * 2)


# the entropy of three pairs, of which two are the same
TWO_OF_THREE = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))


@pytest.mark.parametrize(
    'texts, entropy',
    [
        (['a b c'], math.log(2)),  # a b, b c
        (['a b a b'], TWO_OF_THREE),
        (['a', 'a'], 0.0),  # shorter than an n-gram: one n-gram
        (['', ' '], None),
    ],
)
def test_diversity_is_the_entropy_of_word_pairs(texts, entropy):
    expected = None if entropy is None else pytest.approx(entropy)
    assert diversity(texts, 2) == expected
    assert str(diversity(['a'], 2)) == '0.0'  # not -0.0


def test_responses_to_rewordings_of_the_context_count(gpt2_folder):
    item = ScoringItem(TEXTS[:1], 'a b', extras={'responses': ('c d', 'a b')})
    [score] = scored(gpt2_folder, [item])
    assert score.values['Diversity'] == pytest.approx(TWO_OF_THREE)


def test_consistency_is_with_the_speakers_last_utterance(gpt2_folder):
    asked = []

    def tell(first, second):
        asked.append((first, second))
        return 0.25

    scores = scored(gpt2_folder, ITEMS, KnownClassifier(LABELS, 'Contradiction', tell))
    # TEXTS[k] follows the other speaker's TEXTS[k - 1] and its own TEXTS[k - 2]
    assert asked == [(TEXTS[k - 2], TEXTS[k]) for k in (2, 3, 4)]
    assert [score.values['Consistency'] for score in scores] == [None, 0.75, 0.75, 0.75]
    assert 'before' in scores[0].reasons['Consistency']


@pytest.mark.parametrize(
    'speakers, speaker, earlier',
    [
        (('a', 'a', 'b', 'b', 'a'), 'a', 'two'),
        (('a', 'a', 'a', 'a', 'a'), 'a', 'three'),  # self-play
    ],
)
def test_who_said_what(gpt2_folder, speakers, speaker, earlier):
    def tell(first, second):
        return first == earlier

    context = ('one', 'two', 'three', 'four')
    item = ScoringItem(context, 'five', speaker, extras={'speakers': speakers})
    classifier = KnownClassifier(LABELS, 'Contradiction', tell)
    [score] = scored(gpt2_folder, [item], classifier)
    assert score.values['Consistency'] == 0


def test_a_classifier_without_the_label_is_refused(gpt2_folder):
    classifier = KnownClassifier(('LABEL_0', 'LABEL_1'), 'LABEL_1', None)
    with user_error('classifier.*LABEL_0'):
        scored(gpt2_folder, ITEMS, classifier)


def test_what_is_missing_has_a_reason(gpt2_folder):
    first, empty = scored(
        gpt2_folder, [ScoringItem((), 'tea'), ScoringItem(TEXTS[:1], '')]
    )
    reasons = {'Coherence': 'context', 'Consistency': 'classifier'}
    # the first token is not counted, and there is no other
    for dimension, why in {**reasons, 'Fluency': 'one token'}.items():
        assert why in reason_of(first, dimension)
    assert {empty.values[name] for name in Holistic.dimensions} == {None}
