"""
Trivial baselines, by pencil.
"""

import pytest

from parlai_ext.ranking.baselines import (
    HIGHER_IS_BETTER,
    baseline_values,
    distinct_2,
    mean_length,
    overlap_share,
    repeated_share,
)


@pytest.mark.parametrize(
    'measure, texts, value',
    [
        # words between any spaces; an empty utterance has none but counts
        (mean_length, ['one two  three', 'four'], 2.0),
        (mean_length, ['one two', ''], 1.0),
        # i like, like tea | i like, like tea, tea too: 3 different of 5
        (distinct_2, ['i like tea', 'I like tea too'], pytest.approx(3 / 5)),
        (distinct_2, ['a', 'b', 'c'], None),  # pairs do not cross utterances
        # 'Hi  there' repeats 'hi there'; the third repeats it again
        (repeated_share, ['hi there', 'Hi  there', 'bye', 'HI THERE '], 0.5),
        (repeated_share, ['a', 'b', 'c'], 0.0),
    ],
)
def test_a_baseline_by_pencil(measure, texts, value):
    assert measure(texts) == value


def test_nothing_said_is_no_score():
    assert set(baseline_values([], []).values()) == {None}


def test_overlap_is_the_share_of_words_that_the_partner_said_in_his_last_two_turns():
    heard = ['We saw a bear!', 'I like old trains.', 'Do you?']
    # i like you | cats, too: bears are three turns away
    assert overlap_share('I like YOU, cats bear too', heard) == pytest.approx(3 / 6)
    # a word that comes twice counts twice
    assert overlap_share('trains trains, cats', heard) == pytest.approx(2 / 3)


def test_only_repetition_is_better_when_lower():
    worse = [name for name, higher in HIGHER_IS_BETTER.items() if not higher]
    assert worse == ['repeated_share']
    assert set(HIGHER_IS_BETTER) == set(baseline_values([], []))
