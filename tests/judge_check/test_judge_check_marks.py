"""
The outcome on a kind and on a dimension, by hand.
"""

import re
from pathlib import Path

import numpy as np
import pytest

from parlai_ext.judge_check.marks import MARKS, dimension_check, kind_result
from parlai_ext.judge_check.perturbations import PARROTS
from parlai_ext.judge_check.record import (
    PARROT_WORDS,
    Biases,
    DimensionCheck,
    JudgeCheck,
)
from parlai_ext.judge_check.sample import human_anchor, variance_share
from parlai_ext.ranking.agreement import known_spearman

HIGHER, TIE, LOWER = (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)
NEEDED = ('shuffled_words', 'other_dialogue', 'punctuation')


def result(kind, n_higher, n, n_ties=0, source='systems'):
    pairs = [HIGHER] * n_higher + [TIE] * n_ties
    return kind_result(kind, source, pairs + [LOWER] * (n - len(pairs)))


def good(*others):
    return [result(kind, 40, 40) for kind in NEEDED] + list(others)


@pytest.mark.parametrize(
    'n_higher, n, outcome',
    [
        (40, 40, 'pass'),
        # z² = 3.84: of 40, the interval of 27 begins at 0.520 and that of 26 at 0.495
        (27, 40, 'pass'),
        (26, 40, 'weak'),
        (20, 40, 'weak'),
        (14, 40, 'weak'),
        (13, 40, 'fail'),
        (0, 40, 'fail'),
        (9, 9, 'untested'),
    ],
)
def test_a_kind_passes_with_its_whole_interval_above_a_half(n_higher, n, outcome):
    assert result('shuffled_words', n_higher, n).outcome == outcome


def test_a_tie_is_half_a_success():
    kind = result('punctuation', 10, 40, n_ties=20)
    assert kind.share == (10 + 20 / 2) / 40
    assert (kind.n_higher, kind.n_ties) == (10, 20)


def test_a_judge_that_gives_one_score_to_everything_is_weak():
    kinds = [result(kind, 0, 40, n_ties=40) for kind in NEEDED]
    assert dimension_check('D', kinds).outcome == 'weak'


def test_a_judge_that_tells_everything_passes_without_reasons():
    check = dimension_check('D', good(result('generic', 40, 40)))
    assert (check.outcome, check.reasons) == ('pass', ())


@pytest.mark.parametrize('source', ['systems', 'people'])
def test_losing_to_one_required_kind_fails(source):
    check = dimension_check('D', good(result('repeat_self', 2, 40, source=source)))
    assert check.outcome == 'fail'
    assert 'own earlier turn' in check.reasons[0]


@pytest.mark.parametrize('kind', ['generic', 'truncated'])
def test_losing_to_what_may_be_good_is_weak(kind):
    check = dimension_check('D', good(result(kind, 2, 40)))
    assert check.outcome == 'weak'


def test_a_needed_kind_that_could_not_be_tried_is_weak():
    kinds = [result(kind, 40, 40) for kind in NEEDED[1:]]
    check = dimension_check('D', kinds)
    assert check.outcome == 'weak'
    assert 'shuffled words' in check.reasons[0]


def test_a_judge_that_follows_length_is_weak():
    biases = Biases(200, 0.9, None, None, None, None)
    assert dimension_check('D', good(), biases=biases).outcome == 'weak'


@pytest.mark.parametrize(('overlap', 'outcome'), [(0.69, 'pass'), (0.7, 'weak')])
def test_a_judge_that_follows_the_partners_words_is_weak(overlap, outcome):
    biases = Biases(200, None, None, None, None, None, overlap)
    check = dimension_check('D', good(), biases=biases)
    assert check.outcome == outcome
    assert all('overlap' in reason for reason in check.reasons)


def test_the_first_reason_names_the_worst_kind_in_percent():
    kinds = good(result('repeat_self', 10, 40))[1:]
    kinds.append(result('shuffled_words', 34, 200))
    sentence = dimension_check('D', kinds).reasons[0]
    # 34 of 200 higher: the perturbed copy is above in 83 %
    assert (
        'scores shuffled words above what the systems said in 83 % of 200' in sentence
    )


def test_a_rating_by_games_has_the_check_of_games():
    one, two, games = (DimensionCheck(name, 'pass', (), ()) for name in ('D', 'E', 'G'))
    both = {'D': one, 'E': two}
    check = JudgeCheck('s', 0, 0, None, 0, 0.0, both, tournament=games)
    assert check.check_of('D') is one
    assert check.check_of('Overall') is games


def test_a_rating_by_games_in_one_dimension_has_the_check_of_that_dimension():
    one = DimensionCheck('D', 'pass', (), ())
    assert JudgeCheck('s', 0, 0, None, 0, 0.0, {'D': one}).check_of('Overall') is one


def test_the_docs_show_the_pass_mark_of_every_kind():
    page = (Path(__file__).parents[2] / 'docs' / 'judges.md').read_text()
    rows = re.findall(r'^\| `(\w+)` \|[^|]*\| ([^|]*) \|', page, re.MULTILINE)
    assert dict(rows) == MARKS


# --- parrots --------------------------------------------------------------------------


def test_every_kind_of_parrot_has_a_mark_and_words():
    assert set(PARROTS) == set(PARROT_WORDS) <= set(MARKS)


def together(*kinds):
    check = dimension_check('D', good(*kinds))
    [own] = [kind for kind in check.kinds if kind.kind == 'parrots']
    return check, own


def test_parrots_count_together_and_one_of_few_pairs_is_no_doubt_while_it_is_ahead():
    # 8 of 12: [0.39, 0.86] holds a half; together 36 of 40 do not
    check, own = together(result('mirror', 8, 12), result('padded_echo', 28, 28))
    assert (own.n, own.n_higher, own.outcome) == (40, 36, 'pass')
    assert [k.outcome for k in check.kinds if k.kind == 'mirror'] == ['weak']
    assert check.outcome == 'pass'


def test_one_kind_of_parrot_that_is_not_behind_makes_a_judge_weak():
    check, own = together(result('mirror', 6, 12), result('padded_echo', 40, 40))
    assert own.outcome == 'pass'
    assert check.outcome == 'weak' and 'pronouns' in check.reasons[0]


def test_parrots_that_are_all_a_little_ahead_are_weak_together():
    # 7 of 12 each: 14 of 24, [0.39, 0.76]
    check, own = together(result('mirror', 7, 12), result('padded_echo', 7, 12))
    assert own.outcome == check.outcome == 'weak'
    assert 'parrots of any kind' in check.reasons[0]


@pytest.mark.parametrize(
    ('kind', 'source', 'outcome'),
    [
        ('padded_echo', 'systems', 'fail'),
        ('padded_echo', 'people', 'fail'),
        # flattery may be better than what a bad system says, but not than people's
        ('flatterer', 'systems', 'weak'),
        ('flatterer', 'people', 'fail'),
    ],
)
def test_losing_to_a_parrot(kind, source, outcome):
    check, _ = together(result(kind, 0, 12, source=source))
    assert check.outcome == outcome


def test_a_check_of_its_own_kinds_is_the_same_check():
    kinds = result('mirror', 8, 12), result('mirror', 3, 12, source='people')
    check = dimension_check('D', good(*kinds))
    assert dimension_check('D', check.kinds) == check


# -------------------- Correlations and variance shares, and the anchor of people,


def test_a_share_by_hand():
    # means 1 and 4 of whole mean 2.5: between 4 · 1.5² = 9; within 4 · 1² = 4
    scores = np.array([0.0, 2.0, 3.0, 5.0])
    assert variance_share(scores, list('aabb')) == pytest.approx(9 / 13)


@pytest.mark.parametrize('scores, groups', [([1.0, 2.0], 'aa'), ([1.0, 1.0], 'ab')])
def test_one_group_or_no_variance_has_no_share(scores, groups):
    assert variance_share(np.array(scores), list(groups)) is None


def test_a_correlation_needs_ten_rows_and_variance():
    rising = np.arange(10.0)
    assert known_spearman(rising, rising**3) == pytest.approx(1.0)
    assert known_spearman(rising, -rising) == pytest.approx(-1.0)
    assert known_spearman(rising[:9], rising[:9]) is None
    assert known_spearman(rising, np.ones(10)) is None


def anchor(offset, n=10):
    people = {f'o{j}': {'D': float(j % 2)} for j in range(n)}
    replies = {f'o{j}': {'s': [{'D': j % 2 + offset + j / 100}]} for j in range(n)}
    return human_anchor('D', people, replies)


def test_a_system_far_above_people_is_named():
    # people's scores are 0 and 1, five times each: standard deviation 0.527
    found = anchor(1.0)
    assert found.people_mean == 0.5
    assert found.systems == {'s': pytest.approx(1.545)}
    assert 's (' in found.warning


@pytest.mark.parametrize('offset', [-1.0, 0.0, 0.2])
def test_a_system_about_as_good_as_people_is_no_warning(offset):
    assert anchor(offset).warning is None


def test_an_anchor_needs_ten_contexts():
    assert anchor(1.0, n=9) is None
