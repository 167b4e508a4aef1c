"""
The two bootstraps: against a naive loop, against formulas, and at their edges; shares
of answers by the same bootstrap, and Wilson's interval.

The table of dialogue means.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from parlai_ext.ranking.intervals import (
    CHUNK,
    Sampling,
    degrees_of_freedom,
    draw_counts,
    draw_means,
    draw_ratios,
    intervals_for,
    known_intervals,
    student_bound,
    system_means,
    wilson_interval,
)
from tests.support.noise import noise


@pytest.fixture
def holed():
    rng = np.random.default_rng(3)
    values = rng.normal(size=(3, 4, 5))
    values[rng.random(values.shape) < 0.2] = np.nan
    return values


def naive_draws(values, openers, partners):
    """
    Walk through the drawn dialogues one by one, as a first programmer would.
    """
    out = []
    for row in values:
        drawn = [
            value
            for (p, j), value in np.ndenumerate(row)
            for _ in range(int(partners[p] * openers[j]))
            if not np.isnan(value)
        ]
        out.append(np.mean(drawn) if drawn else np.nan)
    return out


@pytest.mark.parametrize('kind', ['fixed', 'sampled'])
def test_weights_give_what_a_loop_over_drawn_dialogues_gives(holed, kind):
    draws = draw_means(holed, Sampling(40, 7))
    openers, partners = (
        draw_counts(n, 40, np.random.default_rng([7, k])) for k, n in enumerate((5, 4))
    )
    if kind == 'fixed':
        partners = np.ones_like(partners)
    naive = [naive_draws(holed, *pair) for pair in zip(openers, partners, strict=True)]
    np.testing.assert_allclose(draws.means + getattr(draws, kind), naive, atol=1e-12)


def test_as_many_units_are_drawn_as_there_are_with_a_multinomials_variance():
    # n = 5, p = 1/5: variance 5 * 1/5 * 4/5 = 0.8
    counts = draw_counts(5, 20000, np.random.default_rng(0))
    assert counts.shape == (20000, 5) and (counts.sum(axis=1) == 5).all()
    assert counts.var(axis=0) == pytest.approx(np.full(5, 0.8), abs=0.05)


def test_games_over_one_opener_are_drawn_together():
    # both games of an opener are equal: the second adds nothing
    once = noise(2, 3, 9)
    twice = np.concatenate([once, once], axis=2)
    draws = draw_means(once, Sampling(200, 1))
    again = draw_means(twice, Sampling(200, 1, games_per_opener=2))
    np.testing.assert_allclose(again.sampled, draws.sampled, atol=1e-12)
    assert again.num_openers.tolist() == [9, 9]


def test_adding_a_system_leaves_the_others_draws_alone(holed):
    few, more = (draw_means(one, Sampling(50, 1)) for one in (holed[:2], holed))
    assert np.array_equal(few.sampled, more.sampled[:, :2], equal_nan=True)


def test_chunks_leave_no_gap():
    # draws that repeated from chunk to chunk would correlate
    values = noise(1, 2, 30)
    fixed = draw_means(values, Sampling(2 * CHUNK + 3, 1)).fixed[:, 0]
    assert not np.isnan(fixed).any()
    assert abs(np.corrcoef(fixed[:CHUNK], fixed[CHUNK : 2 * CHUNK])[0, 1]) < 0.2


@pytest.mark.parametrize(
    'shape, without, fixed, sampled',
    [
        # one partner says nothing of other partners
        ((2, 1, 9), [], [True, True], [False, False]),
        # a system that was seen with one partner only
        ((2, 3, 9), (0, [1, 2]), [True, True], [False, True]),
        # a system without scores
        ((2, 2, 4), 0, [False, True], [False, True]),
        # fewer than three openers
        *(((1, 8, n), [], [False], [False]) for n in range(3)),
    ],
)
def test_which_systems_have_an_interval(shape, without, fixed, sampled):
    values = noise(*shape)
    values[without] = np.nan
    draws = draw_means(values, Sampling(100, 1))
    for partners, known in (('fixed', fixed), ('sampled', sampled)):
        intervals = intervals_for(draws, partners)
        assert [not np.isnan(low) for low, _ in intervals] == known


def test_a_normal_bound_widens_to_students_t():
    # n = 4: t(.975, 3) = 3.182 from the tables, times sqrt(4 / 3)
    bound = student_bound(stats.norm.ppf(0.975), np.array([3.0]))
    assert bound[0] == pytest.approx(3.182446 * (4 / 3) ** 0.5, rel=1e-5)


def test_degrees_of_freedom_follow_the_larger_part():
    # 20 openers, 4 partners: nothing from partners; nothing but partners; half and half
    # (Satterthwaite)
    fixed, sampled = np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 2.0])
    units = np.full(3, 20), np.full(3, 4)
    expected = [19, 3, 4 / (1 / 3 + 1 / 19)]
    assert degrees_of_freedom(fixed, sampled, *units) == pytest.approx(expected)


# ------------------------------------------------------------------ shares of answers


def share_intervals(counts, totals, bootstraps, seed):
    tables = ([csr_array(one.T) for one in side] for side in (counts, totals))
    return known_intervals(draw_ratios(*tables, Sampling(bootstraps, seed)))


@pytest.mark.parametrize('annotators, kind', [(4, 'sampled'), (1, 'fixed')])
def test_one_answer_a_cell_gives_the_intervals_of_means(annotators, kind):
    # of one annotator the interval speaks of this one
    shape = (3, annotators, 20)  # shares, annotators, contexts
    counts = np.random.default_rng(0).integers(0, 2, shape).astype(float)
    ours = share_intervals(counts, np.ones(shape), 200, 3)
    means = intervals_for(draw_means(counts, Sampling(200, 3)), kind)
    assert np.asarray(ours) == pytest.approx(np.asarray(means))


def test_every_answer_counts_once_whatever_its_cell():
    # annotator 0 answers twice about context 0, annotator 1 once about context 1, …
    counts = np.array([[[2.0, 0, 0], [0, 0, 1]]])
    totals = np.array([[[2.0, 0, 1], [0, 1, 1]]])
    ((low, high),) = share_intervals(counts, totals, 500, 0)
    assert low < 3 / 5 < high
    # two contexts give no interval
    two = counts[..., :2], totals[..., :2]
    assert share_intervals(*two, 50, 0) == [(None, None)]


def test_a_share_that_may_be_nothing_reaches_down_to_0_exactly():
    counts = np.array([[[0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]])
    ((low, _),) = share_intervals(counts, np.full_like(counts, 3.0), 500, 0)
    assert low == 0


@pytest.mark.parametrize('successes, n', [(0, 10), (3, 10), (40, 40)])
def test_wilsons_interval_is_that_of_scipy(successes, n):
    other = stats.binomtest(successes, n).proportion_ci(0.95, 'wilson')
    assert wilson_interval(successes, n) == pytest.approx((other.low, other.high))


def test_half_successes_lie_between_whole_ones():
    lows, highs = zip(*(wilson_interval(k, 10) for k in (7, 7.5, 8)), strict=True)
    for ends in (lows, highs):
        assert ends[0] < ends[1] < ends[2]


def test_a_system_mean_is_over_dialogues_not_over_partners():
    # partner 0: 1, 2, 3; partner 1: 10 only: (1 + 2 + 3 + 10) / 4, not (2 + 10) / 2
    values = np.array([[[1.0, 2.0, 3.0], [10.0, np.nan, np.nan]]])
    assert system_means(values).tolist() == [4.0]
