"""
How scores depend on the set of targets and on partners: planted all-play-all tables
whose swings fit on a sheet of paper, and shares of the variance.
"""

import numpy as np
import pytest

from parlai_ext.audit.dependence import (
    REST,
    Turn,
    overturned_pairs,
    set_means,
    sibling_effect,
    swings,
    unfair_sets,
    variance_shares,
)
from parlai_ext.ranking.intervals import Sampling

NAN = np.nan
# what each system gets with each opponent
#        a    b    c    d
PLANTED = [
    [NAN, 5, 5, 3],  # a with d: its full mean is 13/3
    [4, NAN, 3, 6],  # b with d: its full mean is 13/3, in {a, b, d} it is 5
    [3, 3, NAN, 3],
    [2, 2, 2, NAN],
]
SETS = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]])


def table(rows, openers=2):
    return np.repeat(np.array(rows, float)[:, :, None], openers, axis=2)


def test_a_planted_swing_is_the_one_that_pencil_gives():
    # full means: a (5+5+3)/3 = 13/3, b (4+3+6)/3 = 13/3, so both lead
    # {a, b, c}: a 5, b 3.5; {a, b, d}: a 4, b 5
    result = set_means(table(PLANTED), range(4), SETS)
    assert result.full.tolist() == pytest.approx([13 / 3, 13 / 3, 3, 2])
    assert result.means[0].tolist() == pytest.approx([5, 3.5, 3])
    assert result.means[1].tolist() == pytest.approx([4, 5, 2])
    # a and b are tied in the full means, so that each loses a place in one of the sets
    losses = {one.system: (one.loss, one.loss_set) for one in swings(result)}
    assert (losses[0], losses[1]) == ((1, (0, 1, 3)), (1, (0, 1, 2)))


def test_a_pair_that_some_sets_turn_over_is_named_with_its_worst_set():
    rows = [row[:] for row in PLANTED]
    rows[0][1] = 5.3  # now a leads with all opponents: 13.3/3
    result = set_means(table(rows), range(4), SETS)
    (pair,) = overturned_pairs(result)
    assert (pair.better, pair.worse) == (0, 1)
    # {a, b, c}: 5.15 to 3.5; {a, b, d}: 4.15 to 5
    assert (pair.n_sets, pair.n_overturned) == (2, 1)
    assert pair.unfair_set == (0, 1, 3)
    assert pair.margin == pytest.approx(0.85)


def test_table_six_counts_favored_systems_by_fair_and_unfair_order():
    # u and its siblings s, t lose 3 when they talk with each other
    #       u  s  t  f  g
    rows = [
        [NAN, 2, 2, 5, 5],
        [2, NAN, 2, 5, 5],
        [2, 2, NAN, 5, 5],
        [3, 3, 3, NAN, 3],
        [6, 6, 6, 6, NAN],
    ]
    # the fair set is without the siblings, {u, f, g}: u 5, f 3, g 6; {u, s, t, f}:
    # u (2+2+5)/3 = 3, f 3, so f does not win
    families = ['kin'] * 3 + [None] * 2
    first, *_ = unfair_sets(table(rows), range(5), families)
    assert (first.unfavored, first.siblings) == (0, (1, 2))
    assert first.counts == (1, 0, 0, 1)
    rows[3][:3] = [3.2] * 3  # now 3.2 > 3: f overtakes
    first, *_ = unfair_sets(table(rows), range(5), families)
    assert first.counts == (1, 0, 1, 0)
    assert first.turns == (Turn(0, 3, (0, 3, 4), (0, 1, 2, 3)),)


def test_the_sibling_effect_is_what_was_planted():
    rng = np.random.default_rng(1)
    families = ['k', 'k', 'k', None, 'm', 'm']
    worth, adds = rng.normal(size=6), rng.normal(size=6)
    rows = worth[:, None] + adds[None, :]
    rows[:3, :3] -= 0.75
    rows[4:, 4:] -= 0.75
    rows[range(6), range(6)] = NAN
    value, draws = sibling_effect(table(rows, 4), range(6), families, Sampling(20, 0))
    assert value == pytest.approx(-0.75)
    assert draws == pytest.approx(np.full(20, -0.75))


@pytest.mark.parametrize('family', ['k', None])
def test_siblings_alone_have_no_table_six_and_leave_nothing_to_expect(family):
    rows = table([[NAN, 1.0, 2.0], [1.0, NAN, 3.0], [2.0, 1.0, NAN]])
    about = rows, range(3), [family] * 3
    assert list(unfair_sets(*about)) == []
    assert sibling_effect(*about, Sampling(5, 0)) is None


# Variance shares against planted components, pencil, and another program.


def planted(shape, variances, rng):
    """
    Return scores with these variances of system, partner, opener, system × partner and
    the rest.
    """
    t, p, j = shape
    parts = [(t, 1, 1), (1, p, 1), (1, 1, j), (t, p, 1), shape]
    return sum(
        rng.normal(scale=np.sqrt(variance), size=part)
        for variance, part in zip(variances, parts, strict=True)
    )


def test_planted_components_come_back_on_average():
    # an all-play-all: missing cells leave the estimates unbiased
    variances = (4.0, 1.0, 2.0, 0.5, 3.0, 0.0, 0.0)
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(60):
        values = planted((8, 8, 15), variances[:5], rng)
        values[np.arange(8), np.arange(8)] = np.nan
        estimates.append(variance_shares(values).components)
    names = ('system', 'partner', 'opener', 'system × partner', REST)
    names += ('system × opener', 'partner × opener')
    for name, variance in zip(names, variances, strict=True):
        drawn = [one[name] for one in estimates]
        # 60 unbiased estimates: the mean is within four standard errors
        error = np.std(drawn, ddof=1) / np.sqrt(len(drawn))
        assert np.mean(drawn) == pytest.approx(variance, abs=4 * error), name


def test_shrout_and_fleiss_1979():
    # table 2 of "Intraclass correlations": six targets, four judges; its table 4 has
    # the mean squares 11.24 between targets, 32.49 between judges, 1.02 residual
    scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8]]
    scores += [[7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    result = variance_shares(np.array(scores, float)[:, None, :])
    found = [result.components[name] for name in ('system', 'opener', REST)]
    expected = [(11.24 - 1.02) / 4, (32.49 - 1.02) / 6, 1.02]
    # ICC(2,1) = .29 is the share of targets
    found, expected = [*found, result.shares['system']], [*expected, 0.29]
    assert found == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(
    'values',
    [
        np.ones((3, 2, 4)),
        np.ones((1, 1, 1)),
        np.full((2, 2, 2), np.nan),
        # the second partner over the second opener alone
        np.pad(np.ones((2, 1, 1)), [(0, 0), (1, 0), (1, 0)], constant_values=np.nan),
    ],
    ids=['constant', 'single', 'empty', 'one cell each'],
)
def test_what_cannot_be_told_apart_has_no_shares(values):
    assert variance_shares(values) is None
