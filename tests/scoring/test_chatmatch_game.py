"""
Algorithms 1 to 3 on games whose points can be counted on paper; distinct values.
"""

import pytest
from nltk.tokenize import NLTKWordTokenizer

from parlai_ext.scoring.chatmatch.concepts import (
    distinct,
    stems,
    words,
)
from parlai_ext.scoring.chatmatch.game import (
    READINGS,
    find_echoes,
    find_recalls,
    similarities,
)
from tests.support.chatmatch_samples import QUIZ, chatmatch_options
from tests.support.tiny_models import sentences

# "dogs" is in turns 1, 2 and 4, "we" in turns 0, 1, 3 and 5: of these two concepts the
# rarer half is the dogs
TALK = ('we met', 'we like dogs', 'dogs bark', 'we know', 'my dogs', 'we go')
CONCEPTS = {'we': 'we', 'dogs': 'dog'}


CATS = ('hm', 'cats dogs', 'so', 'cats dogs', 'we', 'we')
CATS_TOO = {**CONCEPTS, 'cats': 'cat', 'so': 'so', 'hm': 'hm'}
TWO_DOGS = ('dogs', 'we two', 'dogs', 'we', 'we')
LOUD = (*TALK[:4], 'My Dogs!', 'we go')
# three concepts: "us" is in no turn, the dog in two; 3 * 0.4 = 1.2 holds both
ONE_STEM = ('hm', 'dogs bark', 'we', 'a dog', 'we')
STEMS = {'dogs': 'dog', 'dog': 'dog', 'we': 'we', 'us': 'us'}
# "a" is in three turns, "b" and "d", which is found later, in two, "c" in none: the
# rarer half is "c" and "b"
LETTERS = ('a b', 'a', 'd', 'b', 'a d')


@pytest.mark.parametrize(
    'texts, concepts, options, expected',
    [
        # turn 2 is 1 turn after turn 1: too soon; turn 4 is 2 turns after turn 2
        (TALK, CONCEPTS, {}, {4: 2}),
        # a concept must come back after more than d turns
        (TALK, CONCEPTS, {'recall_distance': 0}, {2: 1, 4: 2}),
        (TALK, CONCEPTS, {'recall_distance': 2}, {}),
        # twice in a turn
        (('hm', 'dogs dogs', 'we', 'we'), CONCEPTS, {'recall_distance': 0}, {}),
        # with all concepts important, "we" comes back at turns 3 and 5
        (TALK, CONCEPTS, {'concept_share': 1.0}, {3: 1, 4: 2, 5: 3}),
        # a turn has one bonus however much it recalls
        (CATS, CATS_TOO, {'concept_share': 1.0}, {3: 1}),
        # the script does not hear the first turn, and looks up words as they are
        (TWO_DOGS, CONCEPTS, {}, {}),
        (TWO_DOGS, CONCEPTS, {'reading': 'paper'}, {2: 0}),
        (LOUD, CONCEPTS, {}, {}),
        (LOUD, CONCEPTS, {'reading': 'paper'}, {4: 2}),
        (ONE_STEM, STEMS, {'concept_share': 0.3}, {}),
        (ONE_STEM, STEMS, {'concept_share': 0.4}, {3: 1}),
        (LETTERS, {x: x for x in 'abcd'}, {'reading': 'paper'}, {3: 0}),
        (TALK, {}, {}, {}),
    ],
)
def test_which_turn_recalls_which(texts, concepts, options, expected):
    options = {'reading': 'released', **options}
    found = find_recalls(texts, concepts, chatmatch_options(thresholds=options))
    assert len(found) == len(texts)
    assert {i: j for i, j in enumerate(found) if j is not None} == expected


def test_words_lose_punctuation_and_get_stems():
    assert stems("The dogs' hobbies.") == ('the', 'dog', 'hobbi')


@pytest.mark.parametrize(
    'word', ['cannot', 'gimme', 'gonna', 'gotta', 'lemme', 'wanna']
)
@pytest.mark.parametrize('text', ['{}', 'you {} go', 'x{}', '{}s'])
def test_contractions_are_parted_as_nltk_does(word, text):
    said = text.format(word)
    assert list(words(said)) == NLTKWordTokenizer().tokenize(said)


@pytest.mark.parametrize(
    'text, unit, expected',
    [
        # a a b: 2 of 3 characters; aa ab: 2 of 2 pairs; the script adds 0.00001 below
        ('aab', 'character', (2 / 3.00001, 2 / 2.00001)),
        # no no no way: 2 of 4 words; (no no) (no no) (no way): 2 of 3 pairs
        ('No no, no way!', 'token', (0.5, 2 / 3)),
        ('', 'character', (0, 0)),
        ('', 'token', (0, 0)),
        ('yes', 'token', (1, 0)),
    ],
)
def test_distinct_values_on_paper(text, unit, expected):
    assert distinct(text, unit) == pytest.approx(expected, abs=1e-6)


RELEASED, PAPER = chatmatch_options('released'), chatmatch_options('paper')


def repeats(texts, rules=RELEASED):
    return find_echoes(texts, rules)[0]


def contradicts(texts, rules=RELEASED):
    return find_echoes(texts, rules)[1]


def test_cosine_of_two_turns_on_paper():
    # two turns; "red" is in both: idf log(3/3)+1 = 1; "dog", "cat" in one: log(3/2)+1
    # = 1.405465. cosine = 1 / (1 + 1.405465 ** 2) = 1 / 2.975332
    found = similarities(['red dog', 'red cat'])
    assert found[0, 1] == pytest.approx(0.336097, abs=1e-6)


def test_turns_without_words_are_like_no_other():
    assert similarities(['', '?!', '🙂 hm'])[:2].tolist() == [[0] * 3] * 2


@pytest.mark.parametrize('reading', READINGS)
def test_what_every_reading_penalises(reading):
    rules = chatmatch_options(reading)
    repeated, contradicted = find_echoes(QUIZ, rules)
    # turn 5 repeats the question of turn 1, turn 7 that of turns 1 and 5, the last of
    # which is named; turn 6 gives the same answer again, which is free
    assert QUIZ[6] == QUIZ[2]
    assert repeated == [None, None, None, None, None, 1, None, 5, None, None]
    # turn 8 answers turn 7 and shares no word with turns 2 and 6
    assert contradicted == [*[None] * 8, 2, None]
    # an answer that is repeated without a question
    texts = ['hello there', 'my house is big', 'no , cats only', 'so it was', QUIZ[2]]
    assert repeats(texts, rules) == [None, None, None, None, 2]


@pytest.mark.parametrize('reading, earlier', [('released', None), ('paper', 2)])
def test_in_the_paper_alone_equal_to_the_threshold_contradicts(reading, earlier):
    # the cosine of turns 8 and 2 is 0, and no cosine is below 0
    rules = chatmatch_options(reading, {'contradiction': 0})
    assert contradicts(QUIZ, rules) == [*[None] * 8, earlier, None]


def test_a_repeated_question_answering_a_repeated_question_is_penalised():
    # turn 6 is both: it answers the repeated turn 5, and is itself turn 2's question
    texts = [*QUIZ[:2], 'why ask me ?', *QUIZ[3:6], 'why ask me ?']
    assert repeats(texts)[5:] == [1, 2]


def test_for_the_script_only_a_question_mark_of_its_own_asks():
    # without the blank, turn 5 is no repeated question: turn 6 is a plain repetition
    texts = [text.replace(' ?', '?') for text in QUIZ]
    assert repeats(texts) == [None] * 5 + [1, 2, 5, None, None]
    assert contradicts(texts) == [None] * 10
    # for the paper any question mark asks
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


@pytest.mark.parametrize('reading, penalised', [('released', False), ('paper', True)])
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
