"""
Algorithms 1 and 2 on games whose points can be counted on paper.
"""

import pytest

from parlai_ext.scoring.chatmatch.game import (
    READINGS,
    chatmatch_options,
    find_echoes,
    similarities,
)
from tests.support.chatmatch_samples import QUIZ
from tests.support.tiny_models import sentences

RELEASED, PAPER = chatmatch_options('released'), chatmatch_options('paper')


def repeats(texts, rules=RELEASED):
    return list(find_echoes(texts, rules).repeats)


def contradicts(texts, rules=RELEASED):
    return list(find_echoes(texts, rules).contradicts)


def test_cosine_of_two_turns_on_paper():
    # two turns; "red" is in both: idf log(3/3)+1 = 1; "dog", "cat" in one: log(3/2)+1
    # = 1.405465. cosine = 1 / (1 + 1.405465 ** 2) = 1 / 2.975332
    found = similarities(['red dog', 'red cat'])
    assert found[0, 1] == pytest.approx(0.336097, abs=1e-6)


def test_turns_without_words_are_like_no_other():
    assert similarities(['', '?!', '🙂 hm'])[:2].tolist() == [[0] * 3] * 2


@pytest.mark.parametrize('reading', READINGS)
def test_a_repeated_question_is_penalised_each_time(reading):
    # turn 5 repeats turn 1; turn 7 repeats turns 1 and 5, the last of them is named
    found = repeats(QUIZ, chatmatch_options(reading))
    assert {i: j for i, j in enumerate(found) if j is not None} == {5: 1, 7: 5}


@pytest.mark.parametrize('reading', READINGS)
def test_the_same_answer_to_a_repeated_question_is_free(reading):
    assert QUIZ[6] == QUIZ[2]
    assert repeats(QUIZ, chatmatch_options(reading))[6] is None


@pytest.mark.parametrize('reading', READINGS)
def test_a_repeated_answer_without_a_question_is_penalised(reading):
    texts = ['hello there', 'my house is big', 'no , cats only', 'so it was', QUIZ[2]]
    assert repeats(texts, chatmatch_options(reading)) == [None, None, None, None, 2]


@pytest.mark.parametrize('reading', READINGS)
def test_a_changed_answer_is_a_contradiction(reading):
    # turn 7 asks what turns 1 and 5 asked; turn 8 shares no word with turns 2 and 6
    found = contradicts(QUIZ, chatmatch_options(reading))
    assert {i: j for i, j in enumerate(found) if j is not None} == {8: 2}


def test_an_answer_that_is_alike_enough_is_no_contradiction():
    # the cosine of turns 8 and 2 is 0, and no cosine is below 0
    assert (
        contradicts(QUIZ, chatmatch_options('released', {'contradiction': 0}))
        == [None] * 10
    )


def test_in_the_paper_equal_to_the_threshold_contradicts():
    assert contradicts(QUIZ, chatmatch_options('paper', {'contradiction': 0}))[8] == 2


def test_a_repeated_question_answering_a_repeated_question_is_penalised():
    # turn 6 is both: it answers the repeated turn 5, and is itself turn 2's question
    texts = [*QUIZ[:2], 'why ask me ?', *QUIZ[3:6], 'why ask me ?']
    assert repeats(texts)[5:] == [1, 2]


def test_for_the_script_only_a_question_mark_of_its_own_asks():
    # without the blank, turn 5 is no repeated question: turn 6 is a plain repetition
    texts = [text.replace(' ?', '?') for text in QUIZ]
    assert repeats(texts) == [None] * 5 + [1, 2, 5, None, None]
    assert contradicts(texts) == [None] * 10


def test_for_the_paper_any_question_mark_asks():
    texts = [text.replace(' ?', '?') for text in QUIZ]
    assert repeats(texts, PAPER) == repeats(QUIZ, PAPER)


def test_only_the_paper_penalises_echoing_the_other():
    texts = ['one thing', 'two words', 'red cats', 'blue dogs', 'blue dogs']
    assert (repeats(texts)[4], repeats(texts, PAPER)[4]) == (None, 3)


def test_nobody_is_bound_to_what_the_other_answered():
    # turn 3 is bob's question of turn 1, asked back by ann at turn 4; bob's answer is
    # compared with his own answers, of which there is none
    texts = ['hi', 'any cats ?', 'many', 'nice one', 'any cats ?', 'zero']
    assert repeats(texts, PAPER)[4] == 1
    assert contradicts(texts, PAPER) == [None] * 6


@pytest.mark.parametrize(
    ('reading', 'penalised'), [('released', False), ('paper', True)]
)
def test_the_script_judges_no_repetition_before_turn_3(reading, penalised):
    texts = ['same again', 'other words', 'same again']
    assert (repeats(texts, chatmatch_options(reading))[2] == 0) == penalised


def test_repetition_needs_the_threshold():
    # two turns of three share both their words with turn 1, one has a third word
    texts = ['a start', 'green apples', 'other talk', 'green apples here']
    alike = similarities(texts)[3, 1]
    near = {'repetition': alike - 0.01}, {'repetition': alike + 0.01}
    found = [repeats(texts, chatmatch_options('released', one))[3] for one in near]
    assert found == [1, None]


def test_equal_turns_are_repetitions_whatever_rounding_does():
    texts = sentences(5)
    strictest = chatmatch_options('released', {'repetition': 1})
    assert repeats(texts + texts[:1] * 2, strictest)[6] == 0
