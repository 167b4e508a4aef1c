"""
Sets of targets: planted all-play-all tables whose swings fit on a sheet of paper.
"""

import numpy as np
import pytest

from parlai_ext.audit.dependence import (
    Turn,
    overturned_pairs,
    set_means,
    sibling_effect,
    swings,
    unfair_sets,
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
