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


def biases(length=None, overlap=None):
    return Biases(200, length, None, None, None, None, overlap)


LOST = (0, 12)
PADDED = result('padded_echo', 28, 28)


@pytest.mark.parametrize(
    ('kinds', 'followed', 'outcome', 'reason'),
    [
        # a judge that tells everything passes; one score for everything is weak
        (good(result('generic', 40, 40)), biases(), 'pass', None),
        ([result(kind, 0, 40, n_ties=40) for kind in NEEDED], biases(), 'weak', ''),
        # losing to one required kind fails; losing to what may be good is weak
        *(
            (good(result('repeat_self', 2, 40, source=source)), biases(), 'fail', own)
            for source, own in (
                ('systems', 'own earlier turn'),
                ('people', 'own earlier turn'),
            )
        ),
        (good(result('generic', 2, 40)), biases(), 'weak', 'generic replies'),
        (good(result('truncated', 2, 40)), biases(), 'weak', 'cut in the middle'),
        # a needed kind that could not be tried
        (good()[1:], biases(), 'weak', 'shuffled words'),
        (good(), biases(length=0.9), 'weak', 'follow length'),
        (good(), biases(overlap=0.69), 'pass', None),
        (good(), biases(overlap=0.7), 'weak', 'overlap'),
        # a parrot of few pairs is no doubt while it is ahead, else it is
        (good(result('mirror', 8, 12), PADDED), biases(), 'pass', None),
        (good(result('mirror', 6, 12), PADDED), biases(), 'weak', 'pronouns'),
        # parrots that are all a little ahead are weak together
        (
            good(result('mirror', 7, 12), result('padded_echo', 7, 12)),
            biases(),
            'weak',
            'parrots of any kind',
        ),
        # parrots that flatter fail by people's replies only
        *(
            (good(result(kind, *LOST, source=source)), biases(), outcome, '')
            for kind, source, outcome in (
                ('padded_echo', 'systems', 'fail'),
                ('padded_echo', 'people', 'fail'),
                ('flatterer', 'systems', 'weak'),
                ('flatterer', 'people', 'fail'),
            )
        ),
    ],
)
def test_the_outcome_on_a_dimension(kinds, followed, outcome, reason):
    check = dimension_check('D', kinds, biases=followed)
    assert check.outcome == outcome
    assert (reason is None) == (check.reasons == ())
    assert reason is None or reason in check.reasons[0]
    # a check of its own kinds is the same check
    assert dimension_check('D', check.kinds, biases=followed) == check


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


def test_parrots_count_together():
    check = dimension_check('D', good(result('mirror', 8, 12), PADDED))
    outcomes = {kind.kind: kind.outcome for kind in check.kinds}
    assert (outcomes['mirror'], outcomes['parrots']) == ('weak', 'pass')
    [own] = [kind for kind in check.kinds if kind.kind == 'parrots']
    assert (own.n, own.n_higher) == (40, 36)


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
