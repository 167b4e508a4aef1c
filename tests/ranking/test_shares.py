"""
Shares of answers: the intervals are those of the ranking's own bootstrap.
"""

import numpy as np
import pytest
from scipy.sparse import csr_array

from parlai_ext.ranking.intervals import (
    Sampling,
    draw_means,
    draw_ratios,
    intervals_for,
    known_intervals,
)

SHAPE = (3, 4, 20)  # shares, annotators, contexts


def share_intervals(counts, totals, bootstraps, seed):
    tables = ([csr_array(one.T) for one in side] for side in (counts, totals))
    return known_intervals(draw_ratios(*tables, bootstraps, seed))


@pytest.fixture
def counts():
    return np.random.default_rng(0).integers(0, 2, SHAPE).astype(float)


def test_one_answer_a_cell_gives_the_intervals_of_means(counts):
    ours = share_intervals(counts, np.ones(SHAPE), 200, 3)
    means = intervals_for(draw_means(counts, Sampling(200, 3)), 'sampled')
    assert np.asarray(ours) == pytest.approx(np.asarray(means))


def test_of_one_annotator_the_interval_speaks_of_this_one(counts):
    one = counts[:, :1]
    ours = share_intervals(one, np.ones_like(one), 200, 3)
    means = intervals_for(draw_means(one, Sampling(200, 3)), 'fixed')
    assert np.asarray(ours) == pytest.approx(np.asarray(means))


def test_every_answer_counts_once_whatever_its_cell():
    # annotator 0 answers twice about context 0, annotator 1 once about context 1, …
    counts = np.array([[[2.0, 0, 0], [0, 0, 1]]])
    totals = np.array([[[2.0, 0, 1], [0, 1, 1]]])
    ((low, high),) = share_intervals(counts, totals, 500, 0)
    assert low < 3 / 5 < high


def test_two_contexts_give_no_interval():
    table = np.ones((1, 3, 2))
    assert share_intervals(table * 0.5, table, 50, 0) == [(None, None)]


def test_a_share_that_may_be_nothing_reaches_down_to_0_exactly():
    counts = np.array([[[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]])
    ((low, _),) = share_intervals(counts, np.full_like(counts, 3.0), 500, 0)
    assert low == 0
