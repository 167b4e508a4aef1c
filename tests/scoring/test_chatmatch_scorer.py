"""
ChatMatch as a scorer: options, signature, perplexity, scores of turns and games; its
points of a game as one score, for each side, and not for a response.
"""

import math

import pytest

from benchmarks.chatmatch.games import raw_scores
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.chatmatch.game import (
    DIMENSIONS,
    perplexities,
)
from parlai_ext.scoring.chatmatch.scorer import ChatMatch, ChatMatchGame
from parlai_ext.scoring.judged_items import judged_scoring_items
from tests.support.bench_samples import judged_dialogue
from tests.support.chatmatch_samples import QUIZ, chatmatch_options, game
from tests.support.scoring_samples import KnownJudge
from tests.support.user_error import user_error


def judge(*_):
    return KnownJudge(lambda context, text: [-1.0] * (len(text.split()) + 1))


def scorer(**config):
    return ChatMatch.from_section({'name': 'chatmatch', **config}, judge())


def scored(indices=range(10), dialogue=None, **config):
    """
    Return the scores of a game of these turns.
    """
    [one] = scorer(**config).score_dialogues([dialogue or game(QUIZ)], [indices])
    return one


def values(scored, index, system):
    return {
        s.dimension: s.value
        for s in scored.scores
        if (s.utterance_index, s.system) == (index, system)
    }


@pytest.mark.parametrize(
    'config, hint',
    [
        ({'reading': 'relesed'}, "'released'"),
        ({'entities': 'spacey'}, "'spacy'"),
        ({'entities': 'gazetteer:big'}, 'gazetteer'),
        ({'concepts': '/no/such/folder'}, 'content_words'),
    ],
)
def test_a_wrong_option_is_one_line_before_a_model_is_loaded(config, hint):
    [option] = config
    with user_error(f'^scorer: .*{option}.*{hint}'):
        ChatMatch.from_section(config)


@pytest.mark.parametrize(
    'unit, text, logprobs, mean',
    [
        ('token', 'hi you', (-1.0, -2.0, -6.0), 3),  # two tokens and the end
        ('character', 'hi', (-1.0, -5.0), 2),  # two characters and the end
    ],
)
def test_a_perplexity_is_that_on_paper(unit, text, logprobs, mean):
    known = KnownJudge(lambda *_: logprobs)
    assert perplexities(known, [text], unit) == [pytest.approx(math.e**mean)]


@pytest.mark.parametrize('logprobs', [(), (-math.inf,), (math.nan,), (-1e6,)])
def test_an_empty_text_or_no_finite_number_is_no_perplexity(logprobs):
    known = KnownJudge(lambda _, text: logprobs if text == 'hi' else (-1.0,))
    assert perplexities(known, ['hi', '', ' '], 'token') == [None] * 3


def test_equal_turns_of_all_games_are_asked_once_each_by_itself():
    known = judge()
    one = ChatMatch(models=known)
    one.score_dialogues([game(QUIZ), game(QUIZ[:4])], [range(10), range(4)])
    asked = sorted((q.context, *q.continuations) for q in known.questions)
    assert asked == [((), text) for text in sorted(set(QUIZ))]


def test_turns_add_up_to_the_counts_of_the_game():
    one = scored()
    for name in ('ann', 'bob'):
        of_game = values(one, None, name)
        for dimension in ('proactivity', 'diversity', 'consistency', 'relevance'):
            turns = (values(one, i, name).get(dimension) or 0 for i in range(10))
            assert sum(turns) == of_game[dimension]


def test_a_turn_that_does_not_count_has_no_score_and_a_reason():
    one = scored()
    reasons = {
        s.utterance_index: s.reason
        for s in one.scores
        if s.dimension == 'proactivity' and s.value is None
    }
    # 0 is given, 5 and 7 repeat, 9 is the last of ten
    assert reasons == {
        0: 'not counted: given',
        5: 'not counted: repeated',
        7: 'not counted: repeated',
        9: 'not counted: the last of an even number of turns',
    }


def test_evidence_names_the_earlier_turns():
    one = scorer(judge_model_file='none', recall_distance=1, concept_share=1.0)
    scored = one.score_dialogues([game(QUIZ)], [[5, 8]])[0]
    assert one.evidence_labels[:2] == ('repeats_turn', 'contradicts_turn')
    # the dogs of turn 5 were in turn 1
    assert scored.evidence == {5: (1, None, 1, None), 8: (None, 2, None, None)}


def test_only_judged_speakers_get_a_games_score():
    assert {s.system for s in scored([2, 4]).scores} == {'ann'}


def test_a_self_chat_has_one_score_a_dimension():
    one = scored(range(1, 10), game(QUIZ, names=('solo',)))
    of_game = [s.dimension for s in one.scores if s.utterance_index is None]
    assert sorted(of_game) == sorted(DIMENSIONS)


@pytest.mark.parametrize(
    'dialogue, reason',
    [
        (game(QUIZ, names=('ann', 'bob', 'cy')), '3 speakers (ann, bob, cy)'),
        (game(QUIZ[:1]), '1 turn(s)'),
        (game(QUIZ[:4], names=('ann', 'bob', 'bob')), 'turn 2: bob speaks twice'),
    ],
)
def test_a_dialogue_that_is_no_game_has_no_score_and_a_reason(dialogue, reason):
    rows = scored(range(len(dialogue.utterances)), dialogue).scores
    [(value, why)] = {(s.value, s.reason) for s in rows}
    assert value is None and why.startswith(reason)
    assert len(rows) == len({*dialogue.speakers}) * len(DIMENSIONS)


def test_without_a_model_or_recogniser_the_rest_is_scored():
    one = scored(judge_model_file='none', entities='none')
    missing = {d for d, v in values(one, None, 'ann').items() if v is None}
    assert missing == {'fluency', 'knowledge'}


def test_entities_are_looked_for_before_the_first_colon_by_the_script():
    dialogue = game(['hi', 'note: i love paris', 'ok', 'fine'])
    for reading, found in (('released', 0), ('paper', 50)):
        one = ChatMatch(chatmatch_options(reading, {'judge_model_file': 'none'}))
        material = one.materials([dialogue])[0]
        assert raw_scores(dialogue, one.options, material)['bob']['knowledge'] == found


@pytest.mark.parametrize('reading, n_questions', [('paper', 2), ('released', 1)])
def test_two_questions_of_a_turn_count_twice_for_the_paper(reading, n_questions):
    one = scored([1], game([QUIZ[0], 'Why? Who says so?!', *QUIZ[2:]]), reading=reading)
    assert values(one, 1, 'bob')['proactivity'] == n_questions


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


def game_scores(*items):
    section = {'reading': 'paper', 'entities': 'none', 'judge_model_file': 'none'}
    return ChatMatchGame.from_section(section).checked_scores(items)


def side(speaker, names=('ann', 'bob') * 3):
    return ScoringItem(TEXTS, None, speaker, extras={'speakers': names})


def test_a_side_gets_a_point_where_its_raw_score_is_higher():
    ann, bob = game_scores(side('ann'), side('bob'))
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
    [score] = game_scores(item)
    assert score.values['Overall'] is None
    assert reason in score.reasons['Overall']


def test_a_response_has_the_values_that_its_turn_adds():
    [score] = game_scores(ScoringItem(TEXTS[:3], TEXTS[3], 'bob'))
    assert score.values['proactivity'] == 1
    assert score.values['diversity'] == 0


def test_a_judged_response_is_given_apart():
    chatmatch = ChatMatchGame.from_section({'judge_model_file': 'none'})
    [turn] = judged_scoring_items(judged_dialogue(1, *TEXTS).turns()[0], chatmatch)
    assert (turn.context, turn.response) == (TEXTS[:1], TEXTS[1])
