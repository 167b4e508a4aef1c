"""
The card of a judge, from a signature and from what lies beside its scores.
"""

import pytest

from parlai_ext.core.nouns import ScoredDialogue
from parlai_ext.results.ranking import (
    CardModel,
    Nearness,
    NearnessMeter,
    judge_card,
)

SIGNATURE = (
    'scorer:fed|followups:94ff|polarity:negative|judge:(agent:TransformerGenerator|'
    'content:4b79|reads:#6c94|text_truncate:96|cut:right)'
)
READS = {'text_truncate': '96', 'cut': 'right'}


def test_size_and_name_are_those_recorded_and_input_is_what_was_signed():
    recorded = {'kind': 'likelihood', 'name': 'zoo:m/model', 'num_parameters': 5}
    card = judge_card(SIGNATURE, {'models': [recorded]})
    assert card.scorer == 'fed'
    assert card.settings == {'followups': '94ff', 'polarity': 'negative'}
    assert card.models == (CardModel('likelihood', 'zoo:m/model', 5, READS),)


def test_a_model_from_a_hub_has_its_commit():
    recorded = {'name': 'hf:a/b', 'num_parameters': 5, 'commit': 'c' * 40}
    [model] = judge_card(SIGNATURE, {'models': [recorded]}).models
    assert model.commit == 'c' * 40


def test_each_model_has_its_own_entry():
    both = [{'kind': k, 'name': k, 'num_parameters': 1} for k in ('likelihood', 'e')]
    signature = 'scorer:two|judge:(cut:left)|e:(text_truncate:256)'
    card = judge_card(signature, {'models': both})
    assert [(m.kind, m.name, dict(m.reads)) for m in card.models] == [
        ('likelihood', 'likelihood', {'cut': 'left'}),
        ('e', 'e', {'text_truncate': '256'}),
    ]


def test_a_scorer_without_a_model_has_a_card_without_one():
    assert judge_card('scorer:length|v:1', {}).models == ()
    assert judge_card('scorer:fed|judge:(none)', {'models': []}).models == ()
    assert judge_card('made-up|v:1', {}).scorer == 'made-up'


ABOUT = {
    'evidence_labels': ['numbers', 'nearness', 'nearest_corpus'],
    'corpora': {'names': ['a', 'b'], 'threshold': 0.3},
}


def test_nearness_is_the_mean_over_the_judged_responses():
    meter = NearnessMeter(ABOUT)
    meter.add(ScoredDialogue('d', (), {1: (9, 0.5, 1), 3: (9, 0.1, 0)}))
    meter.add(None)  # not scored
    meter.add(ScoredDialogue('e', (), {1: (9, 0.3, 1)}))
    assert meter.nearness() == Nearness(pytest.approx(0.3), 0.3, 'b')


def test_nearness_of_another_scorer_is_not_known():
    meter = NearnessMeter({'evidence_labels': ['numbers']})
    meter.add(ScoredDialogue('d', (), {1: (9,)}))
    assert meter.nearness() is None
