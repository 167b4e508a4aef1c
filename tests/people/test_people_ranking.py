"""
The ranking by people: win shares by pencil, intervals by their properties; and a great
many answers: the work and the memory grow with their number, and with nothing else.
"""

import random
import tracemalloc

import numpy as np
import pytest

from parlai_ext.core import HumanJudgement
from parlai_ext.people.ranking import (
    Comparison,
    Judgements,
    people_lines,
    rank_by_people,
    rating_draws,
    unit_means,
    win_shares,
)
from parlai_ext.ranking.intervals import Sampling, draw_means
from parlai_ext.view.progress import bar_of
from tests.support.simulated_annotators import scores_by_system


def comparison(first, second, value, annotator, item):
    return Comparison(
        annotator, 'Overall', first, second, value, f'{first}{item}', second, item
    )


def test_three_wins_of_four_with_half_a_prior_win_each():
    # (3 + 0.5) / (4 + 1) = 0.7
    shares = win_shares(np.array([[[0.0, 3.0], [1.0, 0.0]]]))
    assert shares[0] == pytest.approx([0.7, 0.3], abs=1e-4)


def test_ratings_far_from_the_others_of_their_dialogue_count_nowhere():
    ratings = [
        HumanJudgement(system, 'Overall', value, rater, f'{system}{k}')
        for k in range(3)
        for system, given in {'a': (1, 2, 1, 5), 'b': (3, 3, 4, 4)}.items()
        for rater, value in zip('ABCD', given, strict=True)
    ]
    judged = Judgements(tuple(ratings)).without_outliers(1)
    (ranking,) = rank_by_people(judged, bootstraps=20)
    assert scores_by_system(ranking) == pytest.approx({'a': 4 / 3, 'b': 3.5})
    assert judged.notes[0].startswith('3 of 24 ratings')


def test_a_score_is_the_mean_of_all_ratings():
    # two dialogues over one opener, one over another: (5 + 5 + 2) / 3, not (5 + 2) / 2
    said = {'d1': 5, 'd2': 5, 'd3': 2}
    ratings = [HumanJudgement('a', 'Overall', v, 'Ann', d) for d, v in said.items()]
    openers = {'d1': 'o', 'd2': 'o', 'd3': 'p'}
    (ranking,) = rank_by_people(Judgements(tuple(ratings), contexts=openers), 20)
    assert scores_by_system(ranking) == {'a': 4}


@pytest.mark.parametrize('annotators', ['A', 'ABC', 'ABCD'])
def test_fewer_than_four_annotators_do_not_speak_for_others(annotators):
    games = [
        comparison('a', 'b', float(k < 9), annotator, str(k))
        for k in range(10)
        for annotator in annotators
    ]
    judged = Judgements(tuple(games))
    (ranking,) = rank_by_people(judged, bootstraps=200)
    (best, _) = sorted(ranking.standings, key=lambda standing: standing.rank)
    assert (best.low is not None) == (len(annotators) == 4)
    assert 0.5 < best.low_fixed < best.score < best.high_fixed
    printed = ' '.join(' '.join(people_lines(ranking)).split())
    assert ('these annotators only' in printed) == (best.low is None)


@pytest.mark.slow
def test_equal_systems_are_rarely_told_apart():
    # the claims hold for all pairs together at 5 %; 200 worlds of four equal systems,
    # 20 contexts and 8 annotators with tastes of their own for contexts
    names, worlds, false_claims = list('abcd'), 200, 0
    for world in range(worlds):
        rng = random.Random(world)
        games = []
        for item in range(20):
            first, second = rng.sample(names, 2)
            lean = rng.gauss(0, 0.3)
            for annotator in 'ABCDEFGH':
                value = float(rng.random() < 0.5 + lean)
                games.append(comparison(first, second, value, annotator, str(item)))
        judged = Judgements(tuple(games))
        (ranking,) = rank_by_people(judged, bootstraps=200)
        false_claims += any(s.rank_low != 1 for s in ranking.standings)
    # 5 % of 200 is 10; 18 has a chance of less than 1 % at 5 %
    assert false_claims <= 18


def test_no_table_of_annotators_by_dialogues_is_filled_up():
    # 500 annotators by 2,000 dialogues by 5 systems are 40 MB in a full table
    ratings = (
        HumanJudgement(f's{k % 5}', 'Overall', k % 7 % 5, f'a{k % 500}', f'd{k}')
        for k in range(2000)
    )
    judgements = Judgements(tuple(ratings))
    tracemalloc.start()
    try:
        rank_by_people(judgements, bootstraps=50)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6


def test_resamples_are_those_of_the_full_table():
    rng = np.random.default_rng(0)
    table = rng.integers(1, 6, (3, 4, 9)).astype(float)
    table[rng.random(table.shape) < 0.4] = np.nan
    ratings = [
        HumanJudgement(f's{i}', 'Overall', table[i, j, k], f'a{j}', f'd{i}-{k}')
        for i, j, k in zip(*np.nonzero(~np.isnan(table)), strict=True)
    ]
    contexts = {r.dialogue_id: r.dialogue_id.split('-')[1] for r in ratings}
    with bar_of('', None, progress=False) as bar:
        draws = rating_draws(
            unit_means(ratings), contexts, Sampling(50, 3, count=bar.update)
        )
    expected = draw_means(table, Sampling(50, 3))
    for name, values in vars(draws).items():
        assert values == pytest.approx(getattr(expected, name), nan_ok=True), name
