"""
Precision, recall and areas under curves: against scikit-learn, and by pencil.
"""

import numpy as np
import pytest
from sklearn import metrics

from parlai_ext.ranking.detection import detection_measures, weighted_measures


def noisy(n=300, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.3
    scores = np.round(rng.normal(labels, 1.0), 1)  # rounded: there are ties
    return scores, labels


def test_all_measures_equal_those_of_scikit_learn_with_weights_and_ties():
    scores, labels = noisy()
    weights = np.random.default_rng(1).integers(0, 3, len(scores)).astype(float)
    ours = weighted_measures(scores, labels, 0.5, weights[None])
    flags = scores >= 0.5
    theirs = {
        'precision': metrics.precision_score(labels, flags, sample_weight=weights),
        'recall': metrics.recall_score(labels, flags, sample_weight=weights),
        'f1': metrics.f1_score(labels, flags, sample_weight=weights),
        'roc_auc': metrics.roc_auc_score(labels, scores, sample_weight=weights),
        'pr_auc': metrics.average_precision_score(
            labels, scores, sample_weight=weights
        ),
        'share_flagged': np.average(flags, weights=weights),
    }
    assert {name: row[0] for name, row in ours.items()} == pytest.approx(theirs)


def test_items_of_one_group_are_one_draw():
    # two groups of equal items: a resample has recall 0, 1/2 or 1
    scores = np.array([1.0] * 50 + [0.0] * 50)
    labels = np.ones(100, bool)
    groups = ['a'] * 50 + ['b'] * 50
    recall = detection_measures(scores, labels, 0.5, groups)['recall']
    assert (recall.low, recall.value, recall.high) == (0.0, 0.5, 1.0)


def test_what_does_not_exist_is_none():
    measures = detection_measures(np.zeros(4), np.zeros(4, bool), 0.5)
    assert measures['precision'].value is None  # nothing is flagged
    assert measures['roc_auc'].value is None  # nothing is toxic
    assert measures['share_flagged'].value == 0
