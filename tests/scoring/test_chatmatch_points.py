"""
ChatMatch's points of a game as one score: for each side, and not for a response.
"""

import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.chatmatch.scorer import ChatMatchGame
from parlai_ext.scoring.judged_items import judged_scoring_items
from tests.support.bench_samples import judged_dialogue

# Nobody repeats, recalls or names anything, and no turn has a word twice: the two sides
# differ in their questions only, of which the second speaker has two.
TEXTS = (
    'hello there',
    'you like cats ?',
    'rather not',
    'which animals then ?',
    'none at all',
    'good night dear',
)
NAMES = ('ann', 'bob') * 3


def scored(*items):
    section = {'reading': 'paper', 'entities': 'none', 'judge_model_file': 'none'}
    return ChatMatchGame.from_section(section).checked_scores(items)


def side(speaker, texts=TEXTS, names=NAMES):
    return ScoringItem(texts, None, speaker, extras={'speakers': names})


def test_a_side_gets_a_point_where_its_raw_score_is_higher():
    ann, bob = scored(side('ann'), side('bob'))
    assert (ann.values['Overall'], bob.values['Overall']) == (0, 1)
    assert (ann.values['proactivity'], bob.values['proactivity']) == (0, 2)
    assert bob.evidence['proactivity'] == 1
    # equal raw scores give nobody a point; missing ones none to give
    assert bob.evidence['diversity'] == ann.evidence['diversity'] == 0
    assert bob.evidence['fluency'] is None


@pytest.mark.parametrize(
    'item, reason',
    [
        (ScoringItem(TEXTS[:-1], TEXTS[-1], 'bob'), 'a response has no game'),
        (ScoringItem(TEXTS, None, 'bob'), 'who says what'),
        (side('ann', names=('ann',) * 6), 'self-chat'),
        (side('cyd'), "'cyd' says nothing"),
        (side('ann', names=('ann', 'ann', 'bob', 'ann', 'bob', 'ann')), 'twice'),
    ],
)
def test_without_two_sides_there_is_no_score(item, reason):
    [score] = scored(item)
    assert score.values['Overall'] is None
    assert reason in score.reasons['Overall']


def test_a_response_has_the_values_that_its_turn_adds():
    [score] = scored(ScoringItem(TEXTS[:3], TEXTS[3], 'bob'))
    assert score.values['proactivity'] == 1
    assert score.values['diversity'] == 0


def test_a_judged_dialogue_is_given_whole_and_a_judged_response_apart():
    chatmatch = ChatMatchGame.from_section({'judge_model_file': 'none'})
    dialogue = judged_dialogue(1, *TEXTS)
    [whole] = judged_scoring_items(dialogue, chatmatch, most=1)
    assert (whole.context, whole.response) == (TEXTS, None)
    [turn] = judged_scoring_items(dialogue.turns()[0], chatmatch)
    assert (turn.context, turn.response) == (TEXTS[:1], TEXTS[1])
