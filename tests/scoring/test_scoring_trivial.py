"""
The trivial scorers: length, distinct, repetition and overlap, by pencil.
"""

import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.registry import find_scorer


def overall(scorer, context, response, speaker='', extras=None, **options):
    cls = find_scorer(scorer)
    item = ScoringItem(context, response, speaker, extras=extras or {})
    [score] = cls.from_section(options).checked_scores([item])
    return score.values['Overall'], score.reasons.get('Overall')


@pytest.mark.parametrize(
    ('response', 'words'), [('a b  c', 3), ('well , no', 3), ('', 0)]
)
def test_length_counts_what_blanks_part(response, words):
    assert overall('length', ('hi',), response) == (words, None)


def test_distinct_is_the_share_of_different_word_pairs():
    # pairs: no-no, no-no, no-way; two of three differ, capitals do not count
    assert overall('distinct', (), 'no No no way')[0] == pytest.approx(2 / 3)
    # words: no, way of four
    assert overall('distinct', (), 'no no no way', n=1)[0] == pytest.approx(2 / 4)


@pytest.mark.parametrize('scorer', ['distinct', 'repetition'])
def test_one_word_has_no_pair_and_no_score(scorer):
    value, reason = overall(scorer, ('one word',), 'word')
    assert value is None
    assert '2 words' in reason


def test_repetition_is_minus_the_share_of_pairs_said_before():
    context = ('i like my dog', 'so do i')
    # pairs: i-like (said), like-my (said), my-cat
    assert overall('repetition', context, 'I like my cat')[0] == pytest.approx(-2 / 3)
    # no pair stands across two utterances: dog-so was not said
    assert overall('repetition', context, 'dog so')[0] == 0
    assert overall('repetition', (), 'i like')[0] == 0


def test_overlap_looks_at_the_last_two_turns_of_the_partner():
    context = ('a bear', 'own turn', 'my dog', 'own too', 'your cat')
    # of my, cat, bear, own, too: `a bear` is too long ago, and own turns do not count
    assert overall('overlap', context, 'My cat. Bear own too')[0] == 2 / 5
    assert overall('overlap', (), 'hello')[0] == 0
    assert overall('overlap', context, '?!') == (
        None,
        'there is no word in what is judged',
    )


def test_overlap_of_a_whole_dialogue_is_the_mean_over_its_speakers_utterances():
    context = ('a b', 'a c', 'c d', 'd')
    extras = {'speakers': ('me', 'you', 'me', 'you')}
    assert overall('overlap', context, None, 'me', extras)[0] == (0 + 1 / 2) / 2
    assert overall('overlap', context, None, 'you', extras)[0] == (1 / 2 + 1) / 2


def test_overlap_knows_who_spoke_twice():
    context = ('a', 'b', 'c')
    extras = {'speakers': ('you', 'me', 'me', 'you')}
    # of `you` the turn before the last two
    assert overall('overlap', context, 'b c a', 'you', extras)[0] == pytest.approx(
        2 / 3
    )


def test_of_a_whole_dialogue_the_utterances_of_its_speaker_count():
    context = ('a b', 'c', 'a b', 'd e f g')
    extras = {'speakers': ('me', 'you', 'me', 'you')}
    assert overall('length', context, None, 'me', extras)[0] == 2
    assert overall('length', context, None, 'you', extras)[0] == (1 + 4) / 2
    assert overall('distinct', context, None, 'me', extras)[0] == 1 / 2
    # 'a b' is new at first and said before at the second time
    assert overall('repetition', context, None, 'me', extras)[0] == -1 / 2
    # nobody says who spoke: all utterances
    assert overall('length', context, None)[0] == (2 + 1 + 2 + 4) / 4
