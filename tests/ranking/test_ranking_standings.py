"""
Standings: everything together, the properties a ranking must have, and the bounds of a
mean with unscored dialogues, by pencil.

Simultaneous comparisons and the ranks they leave open.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.ranking.intervals import Sampling, draw_means
from parlai_ext.ranking.standings import (
    ScoreBounds,
    rank_dimension,
    rank_ranges,
    ranks_by_score,
    significantly_better,
    tied_groups,
    unscored_bounds,
    without_width_0,
)
from tests.support.noise import noise

NAMES = ['a', 'b', 'c', 'floor-x']


def made(seed=0, spread=0.5, shape=(4, 3, 10)):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) + spread * np.arange(shape[0])[:, None, None]
    values[rng.random(shape) < 0.05] = np.nan
    return values


def rank(values, names=NAMES, ranked=None, **options):
    options['ranked'] = ranked or [True] * len(names)
    options['counts'] = [(10 + k, k) for k in range(len(names))]
    return list(rank_dimension(values, names, Sampling(200, 0), **options)[0])


def places(found):
    return [(one.rank, one.rank_low, one.rank_high) for one in found]


cases = st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 2.0]))
quick = settings(max_examples=5)


@quick
@given(cases, st.permutations(range(4)))
def test_permuted_systems_give_the_same_standings_permuted(case, order):
    values, found = made(*case), {one.system: one for one in rank(made(*case))}
    for one in rank(values[order], [NAMES[i] for i in order]):
        counts = {'n_dialogues': one.n_dialogues, 'n_unscored': one.n_unscored}
        assert one == replace(found[one.system], **counts)


@quick
@given(cases, st.sampled_from([0.01, 3.0, 1000.0]), st.sampled_from([-100.0, 0, 7.0]))
def test_another_unit_and_zero_change_no_rank_and_move_intervals(case, factor, zero):
    values = made(*case)
    found, scaled = rank(values), rank(values * factor + zero)
    assert places(scaled) == places(found)
    assert [one.low for one in scaled] == pytest.approx(
        [one.low * factor + zero for one in found]
    )


@quick
@given(cases)
def test_turning_scores_and_direction_over_changes_no_rank(case):
    values = made(*case)
    assert places(rank(-values, higher_is_better=False)) == places(rank(values))


@quick
@given(cases, st.booleans())
def test_ranks_and_groups_never_contradict_the_scores(case, higher_is_better):
    rows = rank(made(*case), higher_is_better=higher_is_better)
    rows.sort(key=lambda one: one.score, reverse=higher_is_better)
    assert [one.rank for one in rows] == [1, 2, 3, 4]
    groups = [one.group for one in rows]
    assert groups == sorted(groups) and groups[0] == 1
    assert all(one.rank_low <= one.rank <= one.rank_high for one in rows)


def test_a_system_that_is_not_ranked_keeps_score_intervals_and_counts():
    found = rank(made(), ranked=[True, False, True, True])[1]
    kept = rank(made())[1]
    no_place = dict.fromkeys(('rank', 'rank_low', 'rank_high', 'group'))
    assert found == replace(kept, **no_place)


def test_a_system_that_is_not_ranked_touches_no_other_rank():
    values = made(spread=3.0)
    without = rank(np.delete(values, 1, axis=0), ['a', 'c', 'floor-x'])
    beside = rank(values, ranked=[True, False, True, True])
    assert places(without) == [places(beside)[i] for i in (0, 2, 3)]


def test_a_system_without_scores_is_listed_without_rank():
    values = made()
    values[2] = np.nan
    one = rank(values)[2]
    assert (one.rank, one.score, one.low, one.n_dialogues) == (None, None, None, 12)
    # without any dialogue nothing is ranked
    assert places(rank(np.empty((4, 0, 0)))) == [(None, None, None)] * 4


NAN = np.nan
VALUES = [[[1.0, 3.0, NAN, NAN]], [[0.0, 5.0, 5.0, 2.0]]]


@pytest.mark.parametrize(
    'values, n_unscored, bounds',
    [
        # the ends of all scores in the holes: (1 + 3 + 2 * 0) / 4, (1 + 3 + 2 * 5) / 4
        (VALUES, [2, 0], {'a': ScoreBounds(0.5, 1.0, 3.5)}),
        # a system without any score lies between the ends
        ([[[NAN, NAN]], [[2.0, 4.0]]], [2, 0], {'a': ScoreBounds(1.0, 2.0, 4.0)}),
        # no score at all, and one system without dialogues
        (np.full((2, 1, 2), NAN), [2, 0], {'a': ScoreBounds(1.0, None, None)}),
        # all-play-all: the diagonal is empty, and nothing is missing
        ([[[NAN], [2.0]], [[4.0], [NAN]]], [0, 0], {}),
    ],
)
def test_bounds_of_two_systems(values, n_unscored, bounds):
    assert unscored_bounds(np.array(values), ['a', 'b'], n_unscored) == bounds


def ranks_of(values, **options):
    return rank_ranges(
        significantly_better(draw_means(values, Sampling(300, 0, **options)))
    )


def far_apart(levels, partners=3, openers=12):
    shift = np.array(levels, float)[:, None, None]
    return noise(len(levels), partners, openers) * 0.1 + 100 * shift


def one_constant_gap():
    values = far_apart([0, 0, 5])
    values[1] = values[0] + 1e-3
    return values


def with_an_empty_diagonal():
    values = far_apart([0, 1, 2])
    values[np.arange(3), np.arange(3)] = np.nan
    return values


def constant(*levels):
    return np.ones((len(levels), 2, 5)) * np.array(levels)[:, None, None]


def never_seen_to_vary(share):
    # 10 dialogues without a hit, and 200 with a share of hits
    values = np.full((2, 1, 200), np.nan)
    values[0, 0, :10], values[1, 0] = 0.0, np.arange(200) < 200 * share
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
        (far_apart([1, 0]).repeat(2, axis=0), [(1, 2), (1, 2), (3, 4), (3, 4)]),
        (constant(0.3, 0.1 + 0.2), [(1, 2), (1, 2)]),  # equal but for rounding
        (paired(), [(2, 2), (1, 1)]),
        # 0 of 10 and 20 of 200 (Fisher's exact p is 0.60), 180 of 200 (1e-9)
        (never_seen_to_vary(0.1), [(1, 2), (1, 2)]),
        (never_seen_to_vary(0.9), [(2, 2), (1, 1)]),
        (one_constant_gap(), [(3, 3), (2, 2), (1, 1)]),
        (with_an_empty_diagonal(), [(3, 3), (2, 2), (1, 1)]),
        (noise(1, 2, 5), [(1, 1)]),
        (noise(0, 2, 5), []),
    ],
)
def test_ranks_that_the_data_leave_open(values, ranges):
    assert ranks_of(values) == ranges


def test_a_win_with_one_partner_of_many_holds_for_these_partners_only():
    values = 0.01 * noise(2, 6, 30)
    values[1, 0] += 6.0  # one lucky partner
    assert ranks_of(values, partners='fixed')[0][0] == 2
    assert ranks_of(values, partners='sampled')[0][0] == 1


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


def test_scores_that_never_vary_have_no_interval():
    values = np.concatenate([constant(0.1), noise(1, 2, 5)])
    rows = without_width_0(rank(values, ['a', 'b']))
    assert rows[0].interval() == 'no interval' != rows[1].interval()
