"""
Algorithm 3 on games whose bonuses can be counted on paper; distinct values.
"""

import pytest
from nltk.tokenize import NLTKWordTokenizer

from parlai_ext.scoring.chatmatch.concepts import (
    UNPUNCTUATED,
    distinct,
    stems,
    words,
)
from parlai_ext.scoring.chatmatch.game import (
    chatmatch_options,
    find_recalls,
    important_concepts,
)
from tests.support.chatmatch_samples import DATA, needs_games

# "dogs" is in turns 1, 2 and 4, "we" in turns 0, 1, 3 and 5: of these two concepts the
# rarer half is the dogs
TALK = ('we met', 'we like dogs', 'dogs bark', 'we know', 'my dogs', 'we go')
CONCEPTS = {'we': 'we', 'dogs': 'dog'}


def recalls(texts=TALK, reading='released', concepts=CONCEPTS, **thresholds):
    return list(find_recalls(texts, concepts, chatmatch_options(reading, thresholds)))


def test_a_concept_recalled_after_two_turns_is_a_bonus():
    # turn 2 is 1 turn after turn 1: too soon; turn 4 is 2 turns after turn 2
    assert recalls() == [None, None, None, None, 2, None]


@pytest.mark.parametrize(('d', 'bonuses'), [(0, [2, 4]), (1, [4]), (2, [])])
def test_a_concept_must_come_back_after_more_than_d_turns(d, bonuses):
    found = recalls(recall_distance=d)
    assert [i for i, j in enumerate(found) if j is not None] == bonuses


def test_a_word_twice_in_a_turn_recalls_nothing():
    assert recalls(['hm', 'dogs dogs', 'we', 'we'], recall_distance=0) == [None] * 4


def test_common_concepts_give_nothing():
    # with all concepts important, "we" comes back at turns 3 and 5
    assert recalls(concept_share=1.0) == [None, None, None, 1, 2, 3]


def test_a_turn_has_one_bonus_however_much_it_recalls():
    texts = ['hm', 'cats dogs', 'so', 'cats dogs', 'we', 'we']
    concepts = {**CONCEPTS, 'cats': 'cat', 'so': 'so', 'hm': 'hm'}
    assert recalls(texts, concepts=concepts, concept_share=1.0)[3] == 1


@pytest.mark.parametrize(('reading', 'first'), [('released', None), ('paper', 0)])
def test_the_script_does_not_hear_the_first_turn(reading, first):
    texts = ['dogs', 'we two', 'dogs', 'we', 'we']
    assert recalls(texts, reading)[2] == first


@pytest.mark.parametrize(('reading', 'heard'), [('released', None), ('paper', 2)])
def test_the_script_looks_words_up_as_they_are_written(reading, heard):
    texts = [*TALK[:4], 'My Dogs!', 'we go']
    assert recalls(texts, reading)[4] == heard


def test_words_of_one_stem_are_one_concept():
    # three concepts: "us" is in no turn, the dog in two; 3 * 0.4 = 1.2 holds both
    texts = ['hm', 'dogs bark', 'we', 'a dog', 'we']
    concepts = {'dogs': 'dog', 'dog': 'dog', 'we': 'we', 'us': 'us'}
    assert recalls(texts, concepts=concepts, concept_share=0.3)[3] is None
    assert recalls(texts, concepts=concepts, concept_share=0.4)[3] == 1


def test_the_rarest_concepts_are_the_important_ones():
    # c is nowhere, b in one turn, a in two, d in one but found later than b
    texts = ['a b', 'a', 'd']
    concepts = {word: word for word in 'abcd'}
    assert important_concepts(texts, concepts, 0.5) == {'c', 'b'}


def test_without_concepts_there_is_no_bonus():
    assert recalls(concepts={}) == [None] * 6


def test_words_lose_punctuation_and_get_stems():
    assert stems("The dogs' hobbies.") == ('the', 'dog', 'hobbi')


@needs_games
def test_words_are_those_of_nltk_on_every_turn_of_the_games():
    lines = {
        line
        for path in DATA.glob('*/*.txt')
        for line in path.read_text(encoding='utf-8').split('\n')
    }
    tokenizer = NLTKWordTokenizer()
    expected = [tokenizer.tokenize(t.lower().translate(UNPUNCTUATED)) for t in lines]
    assert [list(words(text)) for text in lines] == expected


@pytest.mark.parametrize(
    'word', ['cannot', 'gimme', 'gonna', 'gotta', 'lemme', 'wanna']
)
@pytest.mark.parametrize('text', ['{}', 'you {} go', 'x{}', '{}s'])
def test_contractions_are_parted_as_nltk_does(word, text):
    said = text.format(word)
    assert list(words(said)) == NLTKWordTokenizer().tokenize(said)


def test_distinct_values_of_characters_are_those_on_paper():
    # a a b: 2 of 3 characters; aa ab: 2 of 2 pairs; the script adds 0.00001 below
    one, two = distinct('aab', 'character')
    assert one == pytest.approx(2 / 3.00001)
    assert two == pytest.approx(2 / 2.00001)


def test_distinct_values_of_words_are_those_on_paper():
    # no no no way: 2 of 4 words; (no no) (no no) (no way): 2 of 3 pairs
    assert distinct('No no, no way!', 'token') == (0.5, 2 / 3)


@pytest.mark.parametrize('unit', ['character', 'token'])
def test_distinct_of_nothing_is_a_number(unit):
    assert distinct('', unit) == pytest.approx((0, 0), abs=1e-6)


def test_one_word_has_no_pairs():
    assert distinct('yes', 'token') == (1.0, 0.0)
