"""
Simultaneous comparisons and the ranks they leave open.
"""

import numpy as np
import pytest

from parlai_ext.ranking.intervals import Sampling, draw_means
from parlai_ext.ranking.standings import (
    rank_ranges,
    ranks_by_score,
    significantly_better,
    tied_groups,
)


def ranks_of(values, **options):
    return rank_ranges(
        significantly_better(draw_means(values, Sampling(300, 0, **options)))
    )


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def far_apart(levels, partners=3, openers=12):
    shift = np.array(levels, float)[:, None, None]
    return noise(len(levels), partners, openers) * 0.1 + 100 * shift


def two_ahead_of_two():
    values = far_apart([1, 1, 0, 0])
    values[1], values[3] = values[0], values[2]
    return values


def constant(*levels):
    return np.ones((len(levels), 2, 5)) * np.array(levels)[:, None, None]


def with_one_dialogue():
    values = far_apart([0, 5], partners=1)
    values[0, 0, 1:] = np.nan  # it is not beaten on one
    return values


def paired():
    # openers differ by 10, the systems by 0.5 on every opener, within 0.1
    shared = 10 * noise(1, 1, 30) + np.array([0, 0.5])[:, None, None]
    return shared + 0.1 * noise(2, 1, 30, seed=1)


@pytest.mark.parametrize(
    'values, ranges',
    [
        (far_apart([0, 2, 1]), [(3, 3), (1, 1), (2, 2)]),
        # 1 and 2 share ranks 1-2; 3 and 4 have two better: rank 3, range 3-4
        (two_ahead_of_two(), [(1, 2), (1, 2), (3, 4), (3, 4)]),
        (constant(0.1, 0.2), [(2, 2), (1, 1)]),
        (constant(0.3, 0.1 + 0.2), [(1, 2), (1, 2)]),  # equal but for rounding
        (with_one_dialogue(), [(1, 2), (1, 2)]),
        (paired(), [(2, 2), (1, 1)]),
        (noise(1, 2, 5), [(1, 1)]),
        (noise(0, 2, 5), []),
    ],
)
def test_ranks_that_the_data_leave_open(values, ranges):
    assert [(one.low, one.high) for one in ranks_of(values)] == ranges


def test_one_constant_gap_does_not_stop_other_comparisons():
    values = far_apart([0, 0, 5])
    values[1] = values[0] + 1e-3
    assert [one.low for one in ranks_of(values)] == [3, 2, 1]


@pytest.mark.parametrize('partners', [1, 4])
@pytest.mark.parametrize('openers', [0, 1, 2])
def test_fewer_than_three_openers_prove_nothing(openers, partners):
    values = far_apart([1, 9], partners, openers)
    draws = draw_means(values, Sampling(50, 0))
    assert not significantly_better(draws).any()


def test_two_games_over_one_opener_are_no_second_opener():
    # three openers, six games: claims; two openers, four games: none
    for openers, claims in ((3, True), (2, False)):
        draws = draw_means(
            far_apart([1, 9], 3, 2 * openers), Sampling(50, 0, games_per_opener=2)
        )
        assert draws.num_openers.tolist() == [openers, openers]
        assert significantly_better(draws).any() == claims


def test_a_win_with_one_partner_of_many_holds_for_these_partners_only():
    values = 0.01 * noise(2, 6, 30)
    values[1, 0] += 6.0  # one lucky partner
    assert ranks_of(values, partners='fixed')[0].low == 2
    assert ranks_of(values, partners='sampled')[0].low == 1


def test_all_play_all_with_an_empty_diagonal_ranks():
    values = far_apart([0, 1, 2], partners=3)
    values[np.arange(3), np.arange(3)] = np.nan
    assert [one.low for one in ranks_of(values)] == [3, 2, 1]


def test_equal_scores_share_a_rank_and_the_next_is_counted():
    assert ranks_by_score([2.0, 5.0, 2.0, 1.0]) == [2, 1, 2, 4]
    assert ranks_by_score([2.0, 5.0, 2.0, 1.0], higher_is_better=False) == [2, 4, 2, 1]


def test_a_group_ends_where_all_above_are_better_than_all_below():
    # 0 > 2, 0 > 3, 1 > 3, 2 > 3, in this order of scores: 1 and 2 tie, so 0 1 2 is one
    # group, although 0 and 2 differ
    better = np.zeros((4, 4), bool)
    better[[0, 0, 1, 2], [2, 3, 3, 3]] = True
    assert tied_groups(better, [1, 2, 3, 4]) == [1, 1, 1, 2]
    better[0, 1] = True
    assert tied_groups(better, [1, 2, 3, 4]) == [1, 2, 2, 3]
