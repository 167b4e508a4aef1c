"""
Trivial baselines that are no scorers, by pencil; those that are scorers, too:
`tests/scoring/test_relevance.py`.
"""

from parlai_ext.ranking.baselines import (
    HIGHER_IS_BETTER,
    baseline_values,
    repeated_share,
    words_of,
)


def test_utterances_are_repeated_whatever_their_case_and_spaces():
    # 'Hi  there' repeats 'hi there'; the last one repeats it again
    assert repeated_share(['hi there', 'Hi  there', 'bye', 'HI THERE ']) == 0.5
    assert repeated_share(['a', 'b', 'c']) == 0


def test_nothing_said_is_no_score():
    assert set(baseline_values([], []).values()) == {None}


def test_only_repetition_is_better_when_lower():
    worse = [name for name, higher in HIGHER_IS_BETTER.items() if not higher]
    assert worse == ['repeated_share']
    assert set(HIGHER_IS_BETTER) == set(baseline_values([], []))


def test_letters_keep_their_marks_in_any_script():
    # "I speak Hindi", whose vowel signs and virama are marks
    text = 'मैं हिन्दी बोलता हूँ'
    assert words_of(f'{text}!') == text.split()
    assert words_of("Cafe\u0301 isn't 2_3 \u2764\ufe0f") == [
        'cafe\u0301',
        "isn't",
        '2',
        '3',
    ]
