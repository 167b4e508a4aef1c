"""
The card of a judge, from a signature and from what lies beside its scores.
"""

import pytest

from parlai_ext.core.nouns import JudgeModel, ScoredDialogue
from parlai_ext.results.ranking import (
    CardModel,
    Nearness,
    NearnessMeter,
    judge_card,
)
from parlai_ext.store.manifest import ScorerRecord

SIGNATURE = (
    'scorer:fed|followups:94ff|polarity:negative|judge:(agent:TransformerGenerator|'
    'content:4b79|reads:#6c94|text_truncate:96|cut:right)'
)
READS = {'text_truncate': '96', 'cut': 'right'}


def card_of(signature, *models):
    return judge_card(signature, ScorerRecord(models=models))


def test_size_and_name_are_those_recorded_and_input_is_what_was_signed():
    card = card_of(SIGNATURE, JudgeModel('likelihood', 'zoo:m/model', 5))
    assert card.scorer == 'fed'
    assert card.settings == {'followups': '94ff', 'polarity': 'negative'}
    assert card.models == (CardModel('likelihood', 'zoo:m/model', 5, READS),)


def test_a_model_from_a_hub_has_its_commit():
    recorded = JudgeModel('likelihood', 'hf:a/b', 5, 'c' * 40)
    [model] = card_of(SIGNATURE, recorded).models
    assert model.commit == 'c' * 40


def test_each_model_has_its_own_entry():
    both = [JudgeModel(kind, kind, 1) for kind in ('likelihood', 'e')]
    signature = 'scorer:two|judge:(cut:left)|e:(text_truncate:256)'
    card = card_of(signature, *both)
    assert [(m.kind, m.name, dict(m.reads)) for m in card.models] == [
        ('likelihood', 'likelihood', {'cut': 'left'}),
        ('e', 'e', {'text_truncate': '256'}),
    ]


def test_a_scorer_without_a_model_has_a_card_without_one():
    assert card_of('scorer:length|v:1').models == ()
    assert card_of('scorer:fed|judge:(none)').models == ()
    assert card_of('made-up|v:1').scorer == 'made-up'


ABOUT = ScorerRecord(
    evidence_labels=['numbers', 'nearness', 'nearest_corpus'],
    corpora={'names': ['a', 'b'], 'threshold': 0.3},
)


def test_nearness_is_the_mean_over_the_judged_responses():
    meter = NearnessMeter(ABOUT)
    meter.add(ScoredDialogue('d', (), {1: (9, 0.5, 1), 3: (9, 0.1, 0)}))
    meter.add(None)  # not scored
    meter.add(ScoredDialogue('e', (), {1: (9, 0.3, 1)}))
    assert meter.nearness() == Nearness(pytest.approx(0.3), 0.3, 'b')


def test_nearness_of_another_scorer_is_not_known():
    meter = NearnessMeter(ScorerRecord(evidence_labels=['numbers']))
    meter.add(ScoredDialogue('d', (), {1: (9,)}))
    assert meter.nearness() is None
