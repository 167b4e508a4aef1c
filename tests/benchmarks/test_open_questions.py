"""
How many openers an order needs, and where the variance of a score comes from.
"""

import numpy as np
import pytest
from scipy import stats

from benchmarks.open_questions import (
    Scores,
    agreement_interval,
    dialogues_for_right_order,
    joined,
    openers_for_right_order,
    range_of_openers,
    share_of_same_order,
)


def test_the_order_of_two_openers_by_pencil():
    # openers differ by 3 and -1, so the order over both is that of two equal draws of
    # the first (1 of 4) and of one each (2 of 4): 3 of 4
    scores = np.array([[3.0, -1.0], [0.0, 0.0]])
    assert share_of_same_order(scores, 2) == pytest.approx(0.75, abs=0.04)


def test_a_difference_of_one_standard_deviation_needs_three_openers():
    # 1.645 ** 2 = 2.706; mean 1 and standard deviation 1
    differences = 1 + np.array([-1.0, 1.0]) / 2**0.5
    assert openers_for_right_order(differences) == pytest.approx(2.706, rel=1e-3)


def test_by_then_the_mean_has_its_sign_in_95_of_100_runs():
    n = round(openers_for_right_order(np.array([-0.9, 1.5, 0.9, -0.3])))
    sd = np.std([-0.9, 1.5, 0.9, -0.3], ddof=1)
    assert stats.norm.cdf(0.3 * n**0.5 / sd) == pytest.approx(0.95, abs=0.005)


def test_a_sign_that_is_not_sure_has_no_end():
    assert range_of_openers(np.array([1.0, -1.0, 0.2]))[1] == np.inf


def test_the_same_scores_agree_and_reversed_ones_do_not():
    scores = np.arange(4.0)[:, None] + np.zeros((4, 5))
    assert agreement_interval(scores, scores) == (1, 1, 1)
    assert agreement_interval(scores, -scores) == (-1, -1, -1)


def test_an_opener_of_two_runs_counts_once():
    one = Scores(('a', 'b'), ('x', 'y'), np.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
    other = Scores(('a', 'b'), ('y', 'z'), np.array([[[9.0, 5.0]], [[9.0, 6.0]]]))
    assert joined([one, other]).tolist() == [[1.0, 2.0, 5.0], [3.0, 4.0, 6.0]]


def test_dialogues_are_openers_times_partners():
    # on each opener of two partners: mean 1, standard deviation 1, so three openers
    a = 1 + np.array([[-1.0, 1.0], [-1.0, 1.0]]) / 2**0.5
    scores = Scores(('a', 'b'), ('x', 'y'), np.stack([a, np.zeros((2, 2))]))
    assert scores.dialogues_per_opener == 2
    assert dialogues_for_right_order(scores, 0, 1).startswith('6 (')
    assert dialogues_for_right_order(scores, 1, 0) == 'other order'
