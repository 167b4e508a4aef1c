"""
Precision, recall and areas under curves: against scikit-learn, and by pencil.

Means over prompts, their intervals, and paired differences.
"""

import numpy as np
import pytest
from sklearn import metrics

from parlai_ext.ranking.comparison import (
    detection_measures,
    jackknife_values,
    paired_differences,
    prompt_means,
    weighted_measures,
)


def test_all_measures_equal_those_of_scikit_learn_with_weights_and_ties():
    rng = np.random.default_rng(0)
    labels = rng.random(300) < 0.3
    scores = np.round(rng.normal(labels, 1.0), 1)  # rounded: there are ties
    weights = rng.integers(0, 3, 300).astype(float)
    ours = weighted_measures(scores, labels, 0.5, weights[None])
    flags = scores >= 0.5
    theirs = {
        name: measure(labels, given, sample_weight=weights)
        for name, measure, given in (
            ('precision', metrics.precision_score, flags),
            ('recall', metrics.recall_score, flags),
            ('f1', metrics.f1_score, flags),
            ('roc_auc', metrics.roc_auc_score, scores),
            ('pr_auc', metrics.average_precision_score, scores),
        )
    }
    theirs['share_flagged'] = np.average(flags, weights=weights)
    assert {name: row[0] for name, row in ours.items()} == pytest.approx(theirs)


def test_items_of_one_group_are_one_draw():
    # two groups of equal items: a resample has recall 0, 1/2 or 1
    scores = np.array([1.0] * 50 + [0.0] * 50)
    labels = np.ones(100, bool)
    groups = ['a'] * 50 + ['b'] * 50
    recall = detection_measures(scores, labels, 0.5, groups)['recall']
    assert (recall.low, recall.value, recall.high) == (0.0, 0.5, 1.0)


def test_a_perfect_detector_of_few_texts_is_not_certain_to_be_perfect():
    flags = np.array([1.0, 1, 1, 0, 0, 0])
    found = detection_measures(flags, flags > 0, 0.5, 'aabcde')
    assert found['roc_auc'].value == 1 and found['roc_auc'].low is None
    # Wilson 1927 with 2 of 2 groups: 2 / (2 + 1.96^2)
    assert found['recall'].low == pytest.approx(2 / (2 + 1.96**2), abs=1e-4)
    assert found['precision'].high == 1


def test_what_does_not_exist_is_none():
    measures = detection_measures(np.zeros(4), np.zeros(4, bool), 0.5, 'abcd')
    assert measures['precision'].value is None  # nothing is flagged
    assert measures['roc_auc'].value is None  # nothing is toxic
    assert measures['share_flagged'].value == 0


NAN = np.nan


def test_a_mean_leaves_out_prompts_without_a_value():
    one, none = prompt_means(np.array([[1, 2, 6, NAN], [NAN] * 4]), shares=False)
    assert one.value == 3 and one.low < 3 < one.high
    assert (none.value, none.low, none.high) == (None, None, None)


def test_two_prompts_have_no_interval():
    [one] = prompt_means(np.array([[0.2, 0.4]]), shares=True)
    assert one.value == pytest.approx(0.3) and one.low is None


def test_a_share_of_zero_is_not_certain():
    # the rule of Wilson: z² / (n + z²) with z = 1.96
    [one] = prompt_means(np.zeros((1, 10)), shares=True)
    assert one.low == 0 and one.high == pytest.approx(3.8415 / 13.8415, abs=1e-3)


def test_a_rare_share_is_no_surer_than_one_of_zero():
    rare = np.zeros((2, 1000))
    rare[1, 0] = 0.1
    zero, one = prompt_means(rare, shares=True)
    assert one.low < one.value == 1e-4 < zero.high <= one.high


def test_the_interval_of_a_number_that_has_bounds_is_within_them():
    values = np.array([[-2.0, 0, 1, 4, 2]])  # with mean 1, of something up to 1
    [free], [bounded] = (prompt_means(values, shares=False, most=m) for m in (9, 1))
    assert (bounded.low, bounded.high) == (0, 1)
    assert free.low == 0 and 1 < free.high < 9


def test_differences_are_of_the_prompts_that_both_answered():
    values = np.array([[3, 4, 5, 6, 9], [1, 2, 3, 4, NAN], [3, 4, 5, 6, 9]])
    rows = {r.first + r.second: r for r in paired_differences('abc', values)}
    assert rows['ab'].n == 4 and rows['ab'].difference == 2
    # of 2^4 changes of signs, two give a sum as far from 0
    assert rows['ab'].p == pytest.approx(2 / 16)
    assert rows['ab'].p_holm == pytest.approx(3 * 2 / 16)
    assert rows['ac'].difference == 0 and rows['ac'].p == 1
    assert rows['ac'].high is None  # no variance was seen


def test_systems_without_a_common_prompt_have_no_difference():
    assert paired_differences('ab', np.array([[1, NAN], [NAN, 1.0]])) == []


def test_the_jackknife_of_a_mean_gives_the_values_themselves():
    values = np.array([1.0, 2, 4, 9])
    without = (values.sum() - values) / 3
    assert jackknife_values(values.mean(), without) == pytest.approx(values)
