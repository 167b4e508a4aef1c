"""
What scorers of turns and of dialogues are given for one judged dialogue, which
utterances of a run are judged, and of whom there is nothing to judge.
"""

import pytest

from parlai_ext.core import Dialogue, Utterance
from parlai_ext.scoring.base import (
    Scorer,
    ScoringItem,
    judged_indices,
    unscored_systems,
)
from parlai_ext.scoring.score_run import judged_scoring_items
from tests.support.bench_samples import judged_dialogue
from tests.support.scoring_samples import FIRST, SECOND, dialogue

# the system's turns are `b`, `d` and, after a last question, nothing
DIALOGUE = judged_dialogue(1, 'a', 'b', 'c', 'd', 'e')


class OfTurns(Scorer):
    """
    A scorer that needs turns.
    """


class OfBoth(Scorer):
    """
    A scorer of turns that can judge a whole dialogue.
    """

    also_level = 'dialogue'


class OfDialogues(Scorer):
    """
    A scorer that needs whole dialogues.
    """

    level = 'dialogue'


def given(kind, *how, **more):
    """
    Return contexts and responses of the items for a scorer.
    """
    items = judged_scoring_items(DIALOGUE, kind(), *how, **more)
    return [(''.join(item.context), item.response) for item in items]


@pytest.mark.parametrize(
    'kind, how, items',
    [
        (OfTurns, 'auto', [('a', 'b'), ('abc', 'd')]),
        (OfTurns, 'whole', [('abcd', 'e')]),
        (OfBoth, 'auto', [('abcd', 'e')]),
        (OfBoth, 'all', [('a', 'b'), ('abc', 'd')]),
        (OfDialogues, 'auto', [('abcde', None)]),
        (OfDialogues, 'all', [('abcde', None)]),
    ],
)
def test_a_dialogue_is_given_whole_to_those_that_can_judge_it(kind, how, items):
    assert given(kind, how) == items


@pytest.mark.parametrize('kind', [OfTurns, OfBoth, OfDialogues])
def test_so_many_turns_are_drawn_where_turns_are_judged(kind):
    [(context, _)] = given(kind, most=1)
    assert (context in ('a', 'abc')) == (kind is OfTurns)


def test_the_judged_speaker_and_all_speakers_are_told():
    [item] = judged_scoring_items(DIALOGUE, OfBoth())
    speakers = ('User', 'bot', 'User', 'bot', 'User')
    whole = ScoringItem(tuple('abcd'), 'e', 'bot', extras={'speakers': speakers})
    assert item == whole


def test_given_utterances_are_judged_on_request():
    assert judged_indices(dialogue('abcdef'), True, include_given=True) == [0, 2, 4]


def broken(texts, who, given=2):
    return dialogue(texts, given=given, ended_by=who, reason='empty reply')


BROKE = 'it broke the dialogue off: empty reply'
SELF_PLAY = tuple(Utterance('one', text, i < 2) for i, text in enumerate('abcd'))


@pytest.mark.parametrize(
    'one, first_only, judged, unscored',
    [
        # 12 utterances, two given, then five exchanges (bipartite-play, Tables 4 and 5)
        (dialogue('abcdefghijkl'), True, [2, 4, 6, 8, 10], {}),
        (dialogue('abcd', given=1), False, [1, 2, 3], {}),
        (broken('abcde', FIRST), True, [], {FIRST: BROKE}),
        # its partner is judged
        (broken('abcd', FIRST), False, [3], {FIRST: BROKE}),
        # the target is judged on what there is
        (broken('abcde', SECOND), True, [2, 4], {}),
        (
            broken('ab', SECOND),
            True,
            [],
            {FIRST: 'partner broke the dialogue off before it spoke'},
        ),
        # who is silent is named even without an utterance
        (
            broken('', FIRST),
            True,
            [],
            {FIRST: BROKE},
        ),
        (
            broken('a', SECOND, given=0),
            False,
            [0],
            {SECOND: BROKE},
        ),
        # in self-play either side breaks it off
        (
            Dialogue('d', 'p', 'o', SELF_PLAY, ended_by='one', reason='empty reply'),
            True,
            [],
            {'one': BROKE},
        ),
    ],
)
def test_who_is_judged_and_why_a_system_is_not(one, first_only, judged, unscored):
    assert judged_indices(one, first_only) == judged
    assert unscored_systems(one, first_only) == unscored
