"""
Parrots, by pencil: what each kind makes of a turn, and what its wordings must not do.
"""

import string

import pytest

from parlai_ext.judge_check.parrots import (
    ALL,
    HELD_OUT,
    MAX_QUOTED,
    PARROTS,
    TRAIN,
    key_words,
    mirrored,
    parrot_text,
    quote,
)
from parlai_ext.judge_check.perturbations import ResponseInDialogue, parrot

HEARD = ('We have a big garden.', 'I like my dog.')


@pytest.mark.parametrize(
    ('kind', 'expected'),
    [
        ('padded_echo', 'You say I like my dog and I agree with that.'),
        ('echo_question', 'I like my dog? Really? Tell me more about that.'),
        ('key_words', 'I think like and dog is a very important topic these days.'),
        ('flatterer', 'What a wonderful thing to say, you are so smart!'),
        ('mirror', 'You like your dog.'),
        (
            'question_spammer',
            'Really? Why is that? How did it happen? What did you do then?',
        ),
        ('quoted_question', 'That is interesting. What do you mean by like?'),
        (
            'earlier_echo',
            'You said we have a big garden and I still think about that.',
        ),
        ('partial_echo', 'Yes, I like, you know.'),
        ('echo_generic', "I like my dog. I don't know."),
    ],
)
def test_the_first_wording_of_each_kind_by_pencil(kind, expected):
    assert parrot_text(kind, HEARD, 0) == expected


def test_every_kind_is_tried_above():
    [mark] = test_the_first_wording_of_each_kind_by_pencil.pytestmark
    assert [kind for kind, _ in mark.args[1]] == list(PARROTS)


@pytest.mark.parametrize('kind', PARROTS)
def test_no_wording_is_both_for_training_and_for_testing(kind):
    own = PARROTS[kind]
    both = [w.casefold() for w in own.wordings(ALL)]
    assert min(len(own.wordings(TRAIN)), len(own.wordings(HELD_OUT))) >= 8
    assert len(set(both)) == len(both)
    assert own.wordings(TRAIN) + own.wordings(HELD_OUT) == own.wordings(ALL)


@pytest.mark.parametrize('kind', PARROTS)
def test_every_wording_can_be_said_of_every_turn(kind):
    turns = ('ok', 'Is that {so}?', 'No, I - well, I do not know!', 'one two three')
    for turn in turns:
        for number in range(len(PARROTS[kind].wordings())):
            text = parrot_text(kind, (turn, turn), number)
            assert text and text == text.strip() and '  ' not in text
            fields = {f for _, f, *_ in string.Formatter().parse(text) if f}
            assert fields <= {'so'}  # no field is left but the turn's own braces


@pytest.mark.parametrize('kind', PARROTS)
def test_without_a_turn_only_what_fits_everything_is_said(kind):
    fits_everything = kind in ('flatterer', 'question_spammer')
    for heard in ((), ('...',)):
        assert (parrot_text(kind, heard, 0) is not None) == fits_everything


def test_one_turn_is_no_earlier_turn():
    assert parrot_text('earlier_echo', HEARD[1:], 0) is None


@pytest.mark.parametrize(
    ('turn', 'expected'),
    [
        ('We like it!!', 'we like it'),
        ("I'm here. Are you?", "I'm here. Are you"),
        ('  USA is far ', 'USA is far'),
        ('"Hello," he said.', 'hello," he said'),
        ('?!', ''),
        # of more than 20 words the last sentence
        (f'{"one " * MAX_QUOTED}. The end.', 'the end'),
        # of a longer sentence the first 20
        ('w ' * (MAX_QUOTED + 5), ' '.join('w' * MAX_QUOTED)),
    ],
)
def test_quotes_by_pencil(turn, expected):
    assert quote(turn) == expected


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        ('I like my dog', 'you like your dog'),
        ('you are right, I was wrong', 'I am right, you were wrong'),
        ('are you sure', 'am I sure'),
        ('I love you', 'you love me'),
        ("I'm yours", "you're mine"),
        ('he gave it to you yesterday', 'he gave it to me yesterday'),
        ('they are here', 'they are here'),
    ],
)
def test_mirrors_by_pencil(text, expected):
    assert mirrored(text) == expected


@pytest.mark.parametrize(
    ('turn', 'expected'),
    [
        ("I don't play the violin, my sister does", ['violin', 'sister']),
        ('the concert was a concert', ['concert']),
        ('what is that?', ['that']),
    ],
)
def test_key_words_are_the_longest_words_that_say_something(turn, expected):
    assert key_words(turn) == expected


def test_a_response_has_the_same_parrot_every_time_and_others_have_other_wordings():
    perturb = parrot('padded_echo', TRAIN)
    texts = [perturb(ResponseInDialogue(f'reply {i}', 'Hi.')) for i in range(40)]
    assert texts == [
        perturb(ResponseInDialogue(f'reply {i}', 'Hi.')) for i in range(40)
    ]
    known = {parrot_text('padded_echo', ('Hi.',), n, TRAIN) for n in range(20)}
    assert len(set(texts)) > 4 and set(texts) <= known
