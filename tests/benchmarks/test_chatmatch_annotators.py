"""
Kendall's tau with people and among them, and how far it would move.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.chatmatch.annotators import (
    agreement_among_annotators,
    correlate_with_annotators,
    unmatched_systems,
    with_range,
)
from benchmarks.chatmatch.robustness import (
    tau_ranges,
    taus_without_each,
)
from parlai_ext.ranking.agreement import Correlation
from tests.support.chatmatch_samples import pecking_order

RANKS = {'A': 1.0, 'B': 2.0, 'C': 3.0, 'D': 4.0}


def of(*values):
    return dict(zip('ABCDEFG', values, strict=False))


def test_systems_without_a_human_rank_and_unknown_ranked_ones_are_named():
    judges = {'1': of(1, 2, None), '2': {'X': 3.0}}
    assert unmatched_systems('ABC', judges) == [
        'no human rank, left out of tau: C',
        'ranked but not there: X',
    ]
    assert unmatched_systems('AB', {'1': of(1, 2)}) == []


ALIKE = {'1': of(1, 2, 3), '2': of(1, 2, 3), '3': of(2, 2, 2)}


@pytest.mark.parametrize(
    'judges, systems, found',
    [
        # what both judged
        ({'1': of(1, 2, None, 3), '2': of(1, 2, 9, 3)}, None, (1, 1, None, ())),
        # the systems of a group alone
        ({'1': of(1, 2, 3, 4), '2': of(1, 2, 4, 3)}, 'CD', (-1, 1, None, ())),
        # one who ranks all alike is left out
        (ALIKE, None, (1, 1, None, ('2 pairs of annotators without a tau',))),
        (
            {'1': of(1, 2, 3)},
            None,
            (None, 0, 'no two annotators can be compared', ()),
        ),
    ],
)
def test_who_is_compared_with_whom(judges, systems, found):
    one = agreement_among_annotators(judges, systems)
    assert (one.value, one.n, one.reason, one.notes) == found


def test_judges_agreement_is_the_mean_of_scipys():
    said = np.random.default_rng(3).integers(1, 6, size=(4, 7)).astype(float)
    judges = {str(i): of(*row) for i, row in enumerate(said)}
    pairs = itertools.combinations(said, 2)
    expected = np.mean([stats.kendalltau(a, b).statistic for a, b in pairs])
    assert agreement_among_annotators(judges).value == pytest.approx(expected)


def test_judges_drawn_anew_are_all_of_n_to_the_n():
    # two judges, A B and B A: draws 11, 12, 21, 22; 12 and 21 tie (no tau), so ±1
    judges = {'1': of(1, 2), '2': of(2, 1)}
    found = correlate_with_annotators(of(5, 4), {**judges, '3': of(1, 2)})
    # 27 draws of three; mean rank favours A in those with two or three of judges 1, 3:
    # 1 - P(at most one of three), p = 2/3: 20 of 27; B in 7 of 27
    assert (found.value, found.low, found.high) == (1, -1, 1)
    tied = correlate_with_annotators(of(5, 4), judges)
    assert tied.reason == 'all systems have the same human rank'


def test_a_range_holds_the_middle_95_percent():
    # of 41 draws in steps of 0.025 from 0 to 1 one lies outside at either end
    found = with_range(Correlation(0.5, 7), np.linspace(0, 1, 41))
    assert (found.low, found.high) == pytest.approx((0.025, 0.975))


def test_a_draw_without_any_judge_of_a_system_has_no_tau():
    judges = {'1': of(1, 2, None), '2': of(1, 2, 3)}
    found = correlate_with_annotators(of(3, 2, 1), judges)
    # of the draws 11, 12, 21, 22 the first has nobody who judged C
    assert found.value == 1
    assert not any(math.isnan(x) for x in (found.low, found.high))


def test_leaving_out_the_misplaced_system_repairs_tau():
    # people put D first, the games last; without D both say A, B, C
    results = pecking_order(dims='x')
    ranks = {'D': 1.0, 'A': 2.0, 'B': 3.0, 'C': 4.0}
    found = taus_without_each(results, ranks, '3-1-0')
    assert found['D'].value == 1
    # without A: B, C, D against D, B, C: 1 of 3 pairs agrees
    assert found['A'].value == pytest.approx(-1 / 3)


@pytest.mark.parametrize('method', ['openskill', '3-1-0', 'bradley_terry'])
def test_everything_at_once_on_a_pecking_order(method):
    judges = {'1': RANKS, '2': RANKS}
    found = tau_ranges(pecking_order(dims='x'), judges, method, draws=10)
    assert found.judges.value == found.games.low == found.seeds.low == 1
    assert found.without_range == (1, 1)
