"""
The mean of ranks, by pencil.
"""

import numpy as np
import pytest

from parlai_ext.ranking.comparison import mean_rank_scores


def test_the_mean_of_scaled_ranks():
    # ranks 1 2 3 and 3 1 2, each less a half, of three; then the mean
    scores = [[10.0, 20.0, 90.0], [0.3, 0.1, 0.2]]
    assert mean_rank_scores(scores) == pytest.approx([3 / 6, 2 / 6, 4 / 6])


def test_ties_share_their_rank():
    # ranks 1.5 1.5 3
    assert mean_rank_scores([[1.0, 1.0, 2.0]]) == pytest.approx([1 / 3, 1 / 3, 5 / 6])


def test_an_item_that_one_scorer_left_out_has_no_rank_and_counts_for_no_other():
    ranks = mean_rank_scores([[1.0, np.nan, 3.0], [5.0, 6.0, 4.0]])
    # first scorer: ranks 1 and 2 of two items; second: 2, 3, 1 of three
    assert ranks[[0, 2]] == pytest.approx([(0.25 + 0.5) / 2, (0.75 + 1 / 6) / 2])
    assert np.isnan(ranks[1])
