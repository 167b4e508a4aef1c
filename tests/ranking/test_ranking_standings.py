"""
Standings: everything together, the properties a ranking must have, and the bounds of a
mean with unscored dialogues, by pencil.
"""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.ranking.intervals import Sampling
from parlai_ext.ranking.standings import ScoreBounds, rank_dimension, unscored_bounds

NAMES = ['a', 'b', 'c', 'floor-x']


def made(seed=0, spread=0.5, shape=(4, 3, 10)):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape) + spread * np.arange(shape[0])[:, None, None]
    values[rng.random(shape) < 0.05] = np.nan
    return values


def rank(values, names=NAMES, ranked=None, **options):
    found = rank_dimension(
        values,
        names,
        'interesting',
        Sampling(200, 0),
        ranked=ranked or [True] * len(names),
        counts=[(10 + k, k) for k in range(len(names))],
        **options,
    )
    return list(found.standings)


def places(found):
    return [(one.rank, one.rank_low, one.rank_high) for one in found]


cases = st.tuples(st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 2.0]))
quick = settings(max_examples=15, deadline=None)


@quick
@given(cases, st.permutations(range(4)))
def test_permuted_systems_give_the_same_standings_permuted(case, order):
    values, found = made(*case), {one.system: one for one in rank(made(*case))}
    again = rank(values[order], [NAMES[i] for i in order])
    for one in again:
        same = found[one.system]
        counts = (one.n_dialogues, one.n_unscored)
        assert one == replace(same, n_dialogues=counts[0], n_unscored=counts[1])


@quick
@given(cases, st.permutations(range(10)))
def test_permuted_openers_change_no_score(case, order):
    values = made(*case)
    scores = [one.score for one in rank(values)]
    assert [one.score for one in rank(values[:, :, order])] == scores


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
@given(cases)
def test_a_clone_shares_everything_with_its_original(case):
    values = made(*case)
    found = rank(np.concatenate([values, values[1:2]]), [*NAMES, 'a-clone'])
    clone = asdict(found[4]) | {'system': 'b', 'n_dialogues': 11, 'n_unscored': 1}
    assert clone == asdict(found[1])


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


def test_no_nan_is_written():
    values = made()
    values[1], values[2, :, 1:] = np.nan, np.nan
    rows = [asdict(one) for one in rank(values)]
    assert 'NaN' not in json.dumps(rows)


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
