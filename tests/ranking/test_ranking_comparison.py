"""
Comparing scorers: against scipy, published examples and planted truth.

Precision, recall and areas under curves: against scikit-learn, and by pencil.

Means over prompts, their intervals, and paired differences.
"""

import math

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from parlai_ext.ranking.comparison import (
    annotator_ceiling,
    clusters,
    detection_measures,
    holm,
    jackknife_values,
    paired_differences,
    prompt_means,
    rank_products,
    swap_tests,
    weighted_measures,
    williams_test,
)
from tests.support.noise import noise


def test_williams_test_of_howells_example():
    # Howell, Statistical Methods for Psychology (6th edition), page 262; the output of
    # B. Weaver's SPSS program for it (MRC CBU statistics wiki): t 1.361, p .187
    t, p = williams_test(0.80, 0.72, 0.89, 26)
    assert (round(t, 3), round(p, 3)) == (1.361, 0.187)


def test_holm_by_pencil():
    # smallest first: 4 x .005, 3 x .01, 2 x .03, then not below the one before
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_several_differences_at_once_have_the_p_values_of_each():
    parts = 0.2 + noise(40, 3, seed=5)
    parts[9:, 1] = 0  # so few contexts that all swaps are enumerated
    apart = [swap_tests(column[:, None])[0] for column in parts.T]
    assert swap_tests(parts) == pytest.approx(apart)
    about = {'permutation_type': 'samples', 'n_resamples': np.inf}
    theirs = stats.permutation_test((parts[:9, 1],), np.sum, **about)
    assert apart[1] == pytest.approx(theirs.pvalue)


def test_many_contexts_overflow_nothing():
    with np.errstate(all='raise'):
        assert swap_tests(np.ones((5000, 1)), 100) == pytest.approx([1 / 101])


def test_swaps_in_contexts_hold_their_level():
    # scores of a context share an error: swapped one by one, items would claim too much
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(20), 5)
    p_values = []
    for k in range(100):
        human = rng.normal(size=100)
        shared = rng.normal(size=(2, 20))[:, groups]
        a, b = (human + 2 * s + 0.2 * rng.normal(size=100) for s in shared)
        parts = rank_products(a, human) - rank_products(b, human)
        p_values += swap_tests(np.bincount(groups, parts)[:, None], 200, seed=k)
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.09


def test_a_cluster_ends_where_all_above_beat_all_below():
    # a and b alike, c like b but worse than a, d worse than all
    p = np.ones((4, 4))
    for i, j in ((0, 2), (0, 3), (1, 3), (2, 3)):
        p[i, j] = p[j, i] = 0.001
    assert clusters([0.5, 0.45, 0.4, 0.1], p) == [1, 1, 1, 2]
    # in any order of the scorers
    assert clusters([0.1, 0.4, 0.45, 0.5], p[::-1, ::-1]) == [2, 1, 1, 1]


def test_the_ceiling_of_planted_annotators():
    # true values and errors of variance 1 and 2: the mean of four annotators has
    # reliability 1 / (1 + 2 / 4) = 2/3, and a perfect scorer reaches its root
    rng = np.random.default_rng(6)
    truth = rng.normal(size=1500)
    annotations = truth[:, None] + math.sqrt(2) * rng.normal(size=(1500, 4))
    found = annotator_ceiling(annotations.tolist(), halves=5)
    reached = stats.spearmanr(truth, annotations.mean(axis=1))[0]
    one = stats.spearmanr(annotations[:, 0], annotations[:, 1:].mean(axis=1))[0]
    assert [found.reliability, found.ceiling, found.single] == pytest.approx(
        [2 / 3, reached, one], abs=0.03
    )


def test_single_annotators_have_no_ceiling():
    ceiling = annotator_ceiling([[1.0], [2.0], [3.0]])
    assert ceiling.ceiling is None and 'two annotators' in ceiling.reason


# --- detectors, and means over prompts ------------------------------------------------


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
