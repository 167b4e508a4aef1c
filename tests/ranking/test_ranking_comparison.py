"""
Comparing scorers: against scipy, published examples and planted truth.
"""

import math

import numpy as np
import pytest
from scipy import stats

from parlai_ext.ranking.comparison import (
    annotator_ceiling,
    clusters,
    holm,
    rank_products,
    swap_tests,
    williams_test,
)


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
    rng = np.random.default_rng(5)
    parts = rng.normal(0.2, 1.0, size=(40, 3))
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
