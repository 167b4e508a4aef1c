"""
What scorers of turns and of dialogues are given for one judged dialogue.
"""

import pytest

from parlai_ext.scoring.base import Scorer, ScoringItem
from parlai_ext.scoring.judged_items import judged_scoring_items
from tests.support.bench_samples import judged_dialogue

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

    whole_dialogues = True


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
        (OfTurns, 'all', [('a', 'b'), ('abc', 'd')]),
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
