from dataclasses import replace

import pytest

from parlai_ext.report.summary import leader_sentence, sentences, warnings
from parlai_ext.results.ranking import Coefficient
from tests.support.report_example import (
    agreement,
    example_ranking,
    standing,
    tournament_result,
)


def row(name, rank, rank_high, score):
    return replace(standing(name, rank, score), rank_high=rank_high)


def test_systems_tied_with_the_first_are_named():
    rows = [row('a', 1, 2, 3.0), row('b', 1, 3, 2.0), row('c', 2, 3, 1.0)]
    sentence = leader_sentence(rows, 'Overall')
    assert 'Overall, a comes first of 3' in sentence and sentence.endswith(' b.')


def test_lead_over_all_is_claimed_only_when_the_ranks_say_so():
    clear = [row('a', 1, 1, 3.0), row('b', 2, 2, 2.0)]
    assert 'more than chance explains' in leader_sentence(clear, 'Overall')
    unclear = [row('a', 1, 2, 3.0), row('b', 2, 3, 2.0), row('c', 3, 3, 1.0)]
    assert 'more than chance explains' not in leader_sentence(unclear, 'Overall')


def test_unranked_systems_do_not_come_first():
    rows = [row('a', None, None, 9.0), row('b', 1, 1, 2.0)]
    assert 'Overall, b is the only' in leader_sentence(rows, 'Overall')


def test_a_ranking_without_dimensions_is_one_sentence():
    ranking = example_ranking(standings={})
    [sentence] = sentences(ranking)
    assert 'no ranking' in sentence


def test_floor_above_a_system_is_a_caution():
    ranking = example_ranking(('ladder-1', 'floor-generic'), dimensions=('Overall',))
    found = ' '.join(warnings(ranking))
    assert 'the floor floor-generic scores above ladder-1' in found


def test_one_floor_on_two_dimensions_is_one_caution():
    ranking = example_ranking(
        ('ladder-1', 'floor-generic'), dimensions=('Overall', 'Fluency')
    )
    [caution] = [line for line in warnings(ranking) if 'the floor' in line]
    assert 'Overall and Fluency' in caution and 'floor-generic' in caution


def test_a_floor_below_all_systems_is_no_caution():
    ranking = example_ranking(('floor-generic', 'ladder-1'), dimensions=('Overall',))
    assert 'scores above' not in ' '.join(warnings(ranking))


@pytest.mark.parametrize(
    'value, cautioned', [(0.95, True), (0.9, True), (-0.95, True), (0.89, False)]
)
def test_baseline_as_good_as_the_scorer_is_a_caution(value, cautioned):
    as_good = {'mean_length': {'Overall': agreement(value)}}
    ranking = example_ranking(dimensions=('Overall',), baseline_reference=as_good)
    assert ranking.reference['Overall'].spearman.value == 0.9
    assert ('mean length' in ' '.join(warnings(ranking))) is cautioned


def test_ratings_and_baselines_are_compared_by_kendalls_tau():
    def one(spearman, kendall):
        pair = (Coefficient(spearman, None, None), Coefficient(kendall, None, None))
        return replace(agreement(), spearman=pair[0], kendall=pair[1])

    ranking = example_ranking(
        dimensions=('Overall',),
        tournament=tournament_result({'alpha': 1.0, 'beta': 2.0}),
        reference={'Overall': one(0.9, 0.2)},
        baseline_reference={'mean_length': {'Overall': one(0.0, 0.3)}},
    )
    assert 'on Overall mean length 0.30 against 0.20' in ' '.join(warnings(ranking))
