"""
Standings: everything together, the properties a ranking must have, the pairs behind it
and the dialogues that would settle it, by pencil, property and simulation.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parlai_ext.ranking.intervals import Sampling, draw_means, intervals_for
from parlai_ext.ranking.standings import (
    BINS,
    Components,
    ScoreBounds,
    cell_means,
    detectable_difference,
    dialogues_needed,
    flipped_pairs,
    lift,
    pair_differences,
    place_newcomer,
    rank_dimension,
    rank_ranges,
    ranks_by_score,
    score_gap,
    significantly_better,
    spreads,
    tied_groups,
    unscored_bounds,
    variance_components,
    without_width_0,
)
from tests.support.noise import noise

# Everything together, and the bounds of a mean with unscored dialogues. Simultaneous
# comparisons and the ranks they leave open.

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


# What lies behind a ranking: pairs of systems, spreads and cells, by pencil and
# property.
#
# Differences, placings and lifts on tables that fit on a sheet of paper.


def pairs_of(values, systems='abcdef', **options):
    table = np.array(values, dtype=float)
    names = systems[: len(table)]
    ranked = options.pop('ranked', [True] * len(table))
    return pair_differences(table, names, ranked, Sampling(200, 0, **options))


def test_difference_and_win_rate_by_pencil():
    # gaps 1, 0, 2 and -1: mean 0.5, two wins, a tie and a loss: 2.5 of 4
    one = pairs_of([[[2, 3, 4, 0]], [[1, 3, 2, 1]]])['a', 'b']
    assert (one.difference, one.win_rate, one.n) == (0.5, 0.625, 4)


def test_the_difference_is_that_of_the_scores_and_wins_are_over_common_dialogues():
    # scores 6 and 3.5; over the one opener of both, 3 against 2
    one = pairs_of([[[9, 3, NAN]], [[NAN, 2, 5]]])['a', 'b']
    assert (one.difference, one.win_rate, one.n) == (2.5, 1.0, 1)
    assert one.low is None and one.high is None  # two openers of each show too little


def test_systems_without_a_dialogue_in_common_are_no_pair():
    assert pairs_of([[[1.0, NAN]], [[NAN, 2.0]]]) == {}


def test_the_reversed_pair_is_the_pair_of_exchanged_systems():
    values = noise(2, 3, 8)
    there = pairs_of(values)['b', 'a']
    back = pairs_of(values[::-1], 'ba')['b', 'a']
    assert there.win_rate == pytest.approx(back.win_rate)
    assert there.low < there.difference < there.high
    assert there.difference == pytest.approx(back.difference)


@settings(max_examples=4)
@given(st.integers(0, 30))
def test_told_apart_is_what_the_ranking_counts(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(4, 3, 6)) + np.arange(4)[:, None, None]
    about = {'ranked': [True] * 4, 'counts': [(18, 0)] * 4}
    _, separation = rank_dimension(values, 'abcd', Sampling(200, 0), **about)
    n_apart = sum(one.apart for one in pairs_of(values).values())
    assert n_apart == 2 * separation.n_apart  # a pair is there in either order


@settings(max_examples=8)
@given(st.integers(0, 200), st.sampled_from(['sampled', 'fixed']))
def test_two_systems_are_apart_exactly_where_their_interval_leaves_out_0(seed, kind):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(4, 2, 6)) + rng.normal(size=(4, 1, 1)) * 2
    values[rng.random(values.shape) < 0.1] = NAN
    for one in pairs_of(values, partners=kind).values():
        assert one.apart == (one.low > 0 or one.high < 0)
        assert one.low <= one.difference <= one.high


def test_nothing_is_told_apart_of_a_system_that_is_not_ranked():
    values = np.repeat([0.0, 5.0], 12).reshape(2, 2, 6)
    assert pairs_of(values)['a', 'b'].apart
    one = pairs_of(values, ranked=[True, False])['a', 'b']
    assert not one.apart and one.low is None


def test_over_one_partner_the_interval_is_about_it():
    values = noise(2, 1, 9, seed=1)
    sampled, fixed = (
        pairs_of(values, partners=kind)['a', 'b'].low for kind in ('sampled', 'fixed')
    )
    assert sampled == fixed is not None


def test_quantiles_of_a_hundred_and_one_dialogues():
    # 0 … 100: the quantile q is 100 q
    spread = spreads(np.arange(101.0)[None, None, :], ['a'])['a']
    assert spread.quantiles == pytest.approx((5, 25, 50, 75, 95))
    assert (spread.n, spread.lowest, spread.highest) == (101, 0, 100)


def test_every_dialogue_is_in_one_bin_of_a_scale_for_all():
    values = np.array([[[0.0, 0.1, NAN]], [[24.0, 23.5, 12.0]]])
    found = spreads(values, ['low', 'high'])
    # 24 bins from 0 to 24
    assert found['low'].counts == (2, *[0] * (BINS - 1))
    assert found['high'].counts[12] == 1 and found['high'].counts[-1] == 2


def test_a_system_without_scores_has_no_spread():
    assert spreads(np.array([[[NAN]], [[1.0]]]), ['a', 'b']).keys() == {'b'}
    assert spreads(np.full((1, 1, 1), NAN), ['a']) == {}


def test_cells_are_means_over_openers():
    values = np.array([[[1.0, 3.0], [NAN, NAN], [5.0, NAN]]])
    cells = cell_means(values, ['a'], ['x', 'y', 'z'])['a']
    assert {k: (c.mean, c.n) for k, c in cells.items()} == {'x': (2, 2), 'z': (5, 1)}


def test_flipped_pairs_are_those_that_change_places():
    before, after = np.array([3.0, 2.0, 1.0]), np.array([2.0, 3.0, 1.0])
    assert flipped_pairs(before, after) == [(0, 1)]
    assert flipped_pairs(after, before) == [(1, 0)]
    assert flipped_pairs(before, np.array([2.0, 2.0, 1.0])) == []  # a tie is no flip


@pytest.mark.parametrize('apart', [0, 0.5])
def test_a_constant_difference_has_no_width(apart):
    values = noise(1, 2, 6)
    result = score_gap(np.concatenate([values + apart, values]), Sampling(50, 0))
    assert (result.value, result.low, result.high) == pytest.approx((apart,) * 3)
    assert result.is_within(0, 0) != result.is_beyond(0, 0) == bool(apart)


def test_a_newcomer_stands_where_its_score_says():
    spread = np.linspace(-0.1, 0.1, 5)
    best, new, last = (np.array([score + spread] * 2) for score in (4, 3, 2))
    placed = place_newcomer(np.array([best, last]), new, Sampling(100, 0))
    assert (placed.rank, placed.beaten, placed.surely_beaten) == (2, (1,), (1,))
    assert placed.surely_better == (0,)
    score = placed.score
    assert score.low < 3 < score.high and score.value == pytest.approx(3)


def test_a_partner_that_is_good_for_one_system_lifts_it():
    more = np.array([[[2.0] * 4], [[1.0] * 4], [[1.0] * 4]])
    # means with both: 1, 0.5, 0.5; the first rises 0.5 more than the others; the second
    # falls behind their mean: 0.5 - (1 + 0.5) / 2
    for place, expected in ((0, 0.5), (1, -0.25)):
        result = lift(np.zeros((3, 1, 4)), more, place, Sampling(50, 0))
        assert result.value == pytest.approx(expected) and result.is_beyond(0, 0)


# How many dialogues would settle it: the formula against pencil and against
# simulation.

REAL = Components(partner=0.05, opener=0.3, dialogue=1.0)


def needed_for(table, partners='sampled'):
    """
    Return what tells two systems with these differences apart.
    """
    values = np.stack([table, np.zeros_like(table)])
    return dialogues_needed(('a', 'b'), values, 1, Sampling(1, 0, partners))


def differences(rng, components, partners, openers, mean):
    """
    Draw the differences of two systems after the model of `separation`.
    """
    a = rng.normal(size=(partners, 1)) * components.partner**0.5
    b = rng.normal(size=(1, openers)) * components.opener**0.5
    e = rng.normal(size=(partners, openers)) * components.dialogue**0.5
    return mean + a + b + e


def test_components_of_four_differences():
    # means of rows 1.5, 4.5, of columns 2, 4, of all 3; residuals +-0.5: e = 1 with one
    # degree of freedom; 4.5 - 1/2 between partners, 2 - 1/2 between openers
    found = variance_components(np.array([[1.0, 2.0], [3.0, 6.0]]))
    assert found == Components(pytest.approx(4.0), pytest.approx(1.5), pytest.approx(1))


def test_one_partner_leaves_the_variance_over_openers():
    # variance of 1, 2, 6 with divisor 2: 7
    assert variance_components(np.array([[1.0, 2.0, 6.0]])) == Components(0, 7.0, 0)


@pytest.mark.parametrize('table', [[[1.0]], [[1.0], [1.0]]])
def test_one_opener_that_does_not_vary_says_nothing_of_openers(table):
    assert variance_components(np.array(table)) is None


def test_systems_that_met_no_partner_in_common_are_told_so():
    met, nobody = [1.0, 2.0, 4.0], [np.nan] * 3
    values = np.array([[met, nobody], [nobody, met]])
    found = dialogues_needed(('a', 'b'), values, 1, Sampling(1, 0, 'sampled'))
    assert found.reason == 'they have no partner in common'


def test_difference_that_sixteen_openers_find():
    # t(.975, 15) = 2.13145 from the tables, normal 80 % = 0.84162, error 2 / sqrt(16)
    found = detectable_difference(Components(0, 4.0, 0), 1, 16, 1, 'fixed')
    assert found == pytest.approx(
        (2.13145 * (16 / 15) ** 0.5 + 0.84162) * 0.5, rel=1e-4
    )


def share_of_claims(components, partners, openers, kind, difference, worlds=400):
    rng, claims = np.random.default_rng(3), 0
    for world in range(worlds):
        one = differences(rng, components, partners, openers, difference)
        values = np.stack([one, np.zeros_like(one)])
        better = significantly_better(draw_means(values, Sampling(300, world, kind)))
        claims += better[0, 1]
    return claims / worlds


@pytest.mark.parametrize(
    'changed, partners, kind',
    [
        pytest.param({'partner': 0.0}, 4, 'fixed', marks=pytest.mark.slow),
        ({}, 12, 'sampled'),
    ],
)
def test_the_difference_is_found_in_four_of_five_worlds(changed, partners, kind):
    components = replace(REAL, **changed)
    difference = detectable_difference(components, partners, 40, 1, kind)
    found = share_of_claims(components, partners, 40, kind, difference)
    # three binomial errors of 400 worlds are 0.06; Student's t widens for both effects
    assert found == pytest.approx(0.8, abs=0.08)


def test_the_number_from_a_pilot_finds_the_difference_again():
    pilot = differences(np.random.default_rng(1), REAL, 8, 400, 0.2)
    pilot += 0.2 - pilot.mean()
    needed = needed_for(pilot, 'fixed')
    assert (needed.n_partners, needed.n_dialogues) == (8, 8 * needed.n_openers)
    real = replace(REAL, partner=0.0)
    found = share_of_claims(real, 8, needed.n_openers, 'fixed', 0.2, worlds=200)
    assert found == pytest.approx(0.8, abs=0.12)


def test_where_partners_decide_more_partners_are_asked_for():
    partners = np.array([0.5, -0.3, 0.9, -0.1])[:, None]
    table = partners + 0.01 * noise(4, 50)
    needed = needed_for(table)
    assert needed.n_partners > 4
    these = needed_for(table, 'fixed')
    assert (these.n_partners, these.n_openers, these.n_dialogues) == (4, 3, 12)


def test_equal_scores_need_no_number():
    needed = needed_for(np.array([[1.0, -1.0, 0.0]]))
    assert needed.n_dialogues is None and needed.reason


def test_two_games_over_an_opener_are_two_dialogues():
    table = differences(np.random.default_rng(2), REAL, 3, 20, 0.3)
    values = np.stack([np.tile(table, 2), np.zeros((3, 40))])
    once = separated(np.stack([table, 0 * table])).needed[-1]
    twice = separated(values, games_per_opener=2).needed[-1]
    assert twice.n_openers == once.n_openers
    assert twice.n_dialogues == 2 * once.n_dialogues


def separated(values, names=None, **options):
    names = names or [f's{i}' for i in range(len(values))]
    n = len(names)
    about = {'ranked': [True] * n, 'counts': [(values[0].size, 0)] * n}
    return rank_dimension(values, names, Sampling(200, 0, **options), **about)[1]


def test_separation_names_the_first_and_those_it_is_not_told_from():
    values = 0.1 * noise(3, 4, 20)
    values -= values.mean(axis=(1, 2), keepdims=True)
    values += np.array([1.0, 5.01, 5.0])[:, None, None]
    found = separated(values)
    assert (found.first, found.not_apart) == ('s1', ('s2',))
    assert (found.n_apart, found.n_pairs) == (2, 3)
    assert [(n.better, n.worse) for n in found.needed] == [('s1', 's2')]


def test_where_nothing_is_apart_the_last_is_compared_too():
    values = noise(3, 4, 20)
    found = separated(values)
    order = [f's{i}' for i in np.argsort(-values.mean(axis=(1, 2)))]
    assert found.n_apart == 0 and found.not_apart == tuple(order[1:])
    assert [n.worse for n in found.needed] == [order[2], order[1]]


def test_no_number_is_for_a_floor():
    values = noise(3, 1, 20)
    best = int(values.mean(axis=(1, 2)).argmax())
    names = ['a' if place == best else f'floor-{place}' for place in range(3)]
    assert separated(values, names).needed == ()


def test_one_system_has_nothing_to_be_told_from():
    assert separated(np.zeros((1, 2, 5))) is None


# Do intervals cover, and do ranks keep their promise? Known models, many worlds.
#
# Bounds are the nominal rate and three binomial standard errors; the two-way
# bootstrap may be wider than need be (Owen 2007), so its coverage is held from below
# only.

WORLDS = 200


def three_errors(rate, trials):
    return 3 * (rate * (1 - rate) / trials) ** 0.5


def crossed(rng, shape):
    """
    Draw crossed random effects around 0, each half as large as the noise; also return
    the means over openers.
    """
    systems, partners, openers = shape
    lasting = 0.5 * rng.normal(size=(1, partners, 1))
    lasting = lasting + 0.5 * rng.normal(size=(systems, partners, 1))
    values = lasting + 0.5 * rng.normal(size=(1, 1, openers))
    values = values + 0.5 * rng.normal(size=(systems, 1, openers))
    return values + rng.normal(size=shape), lasting.mean(axis=(1, 2))


def coverage(shape, partners):
    rng, hits = np.random.default_rng(11), 0
    for world in range(WORLDS):
        values, with_these = crossed(rng, shape)
        truth = with_these[0] if partners == 'fixed' else 0.0
        low, high = intervals_for(draw_means(values, Sampling(400, world)), partners)[0]
        hits += low <= truth <= high
    return hits / WORLDS


def test_partners_fixed_covers_the_mean_with_these_partners():
    found = coverage((1, 8, 40), 'fixed')
    assert found == pytest.approx(0.95, abs=three_errors(0.95, WORLDS))


def test_partners_sampled_covers_the_mean_over_all_partners():
    found = coverage((1, 8, 40), 'sampled')
    assert found >= 0.95 - three_errors(0.95, WORLDS)


def false_claims(shape, partners, worlds=WORLDS, draws=300):
    rng, claims = np.random.default_rng(5), 0
    for world in range(worlds):
        values, with_these = crossed(rng, shape)
        if partners == 'fixed':
            values = values - with_these[:, None, None]  # equal with these partners
        means = draw_means(values, Sampling(draws, world, partners))
        claims += significantly_better(means).any()
    return claims / worlds


def test_equal_systems_with_these_partners_differ_in_5_percent_of_worlds():
    # unadjusted 5 % tests of 10 pairs would claim in more than 20 % of worlds, a
    # method that never claims in none
    found = false_claims((5, 4, 60), 'fixed')
    assert found == pytest.approx(0.05, abs=three_errors(0.05, WORLDS))


def test_equal_systems_over_all_partners_seldom_differ():
    found = false_claims((5, 12, 30), 'sampled')
    assert found <= 0.05 + three_errors(0.05, WORLDS)


@pytest.mark.slow
@pytest.mark.parametrize('partners', ['fixed', 'sampled'])
def test_eleven_equal_systems_seldom_differ(partners):
    found = false_claims((11, 12, 100), partners, 1000, 1000)
    assert found <= 0.05 + three_errors(0.05, 1000)
