"""
Which utterances are judged, and of whom there is nothing to judge.
"""

import pytest

from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.scoring.base import judged_indices, unscored_systems
from tests.support.scoring_samples import FIRST, SECOND, dialogue

FULL = dialogue('abcdef')


@pytest.mark.parametrize(
    'one, options, judged',
    [
        (FULL, {'first_speaker_only': True}, [2, 4]),
        (FULL, {'first_speaker_only': False}, [2, 3, 4, 5]),
        (FULL, {'first_speaker_only': True, 'include_given': True}, [0, 2, 4]),
        (dialogue('abcd', given=1), {'first_speaker_only': False}, [1, 2, 3]),
    ],
)
def test_utterances_that_a_system_made_itself_are_judged(one, options, judged):
    assert judged_indices(one, **options) == judged


def test_bipartite_dialogue_has_five_judged_utterances():
    # 12 utterances, two given, then five exchanges (bipartite-play, Tables 4 and 5)
    assert len(judged_indices(dialogue('abcdefghijkl'), True)) == 5


def test_a_system_that_broke_off_is_not_judged():
    broken = dialogue('abcde', ended_by=FIRST, reason='empty reply')
    assert judged_indices(broken, True) == []
    assert unscored_systems(broken, True) == {
        FIRST: 'it broke the dialogue off: empty reply'
    }


def test_the_partner_of_the_system_that_broke_off_is_judged():
    broken = dialogue('abcd', ended_by=FIRST, reason='empty reply')
    assert judged_indices(broken, False) == [3]
    assert list(unscored_systems(broken, False)) == [FIRST]


def test_target_is_judged_on_what_there_is():
    broken = dialogue('abcde', ended_by=SECOND, reason='empty reply')
    assert judged_indices(broken, True) == [2, 4]
    assert unscored_systems(broken, True) == {}


def test_target_that_never_spoke_has_a_reason():
    broken = dialogue('ab', ended_by=SECOND, reason='empty reply')
    assert unscored_systems(broken, True) == {
        FIRST: 'partner broke the dialogue off before it spoke'
    }


def test_silent_system_is_named_even_without_an_utterance():
    broken = dialogue('', ended_by=FIRST, reason='no reply')
    assert list(unscored_systems(broken, True)) == [FIRST]


def test_second_speaker_that_never_spoke_is_named_when_both_are_judged():
    broken = dialogue('a', given=0, ended_by=SECOND, reason='no reply')
    assert judged_indices(broken, False) == [0]
    assert list(unscored_systems(broken, False)) == [SECOND]


def test_in_self_play_either_side_breaks_it_off():
    said = tuple(Utterance('one', text, i < 2) for i, text in enumerate('abcd'))
    broken = Dialogue('d', 'p', 'o', said, ended_by='one', reason='empty reply')
    assert judged_indices(broken, True) == []
    assert list(unscored_systems(broken, True)) == ['one']
