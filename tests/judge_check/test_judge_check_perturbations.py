"""
Perturbed copies, by what they must and must not share with the original.
"""

import string

import pytest

from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.judge_check.perturbations import (
    ALL,
    GENERIC,
    HELD_OUT,
    MAX_QUOTED,
    PARROTS,
    PERTURBATIONS,
    TRAIN,
    ResponseInDialogue,
    key_words,
    mirrored,
    parrot,
    parrot_text,
    perturbed_dialogue,
    quote,
    same_text,
)

TEXTS = ('hello there', 'hi to you', 'I like old trains', 'why is that', 'they smell')


def talk(texts=TEXTS, names=('bot', 'man')):
    turns = (Utterance(names[i % 2], text, given=i < 2) for i, text in enumerate(texts))
    return Dialogue('d', 'p', 'o', tuple(turns))


def copy(kind, places, dialogue=None, others=()):
    made = perturbed_dialogue(
        dialogue or talk(), places, PERTURBATIONS[kind], list(others)
    )
    return None if made is None else [u.text for u in made.utterances]


def test_shuffled_words_are_the_same_words_in_another_order():
    text = copy('shuffled_words', [2])[2]
    assert sorted(text.split()) == ['I', 'like', 'old', 'trains']
    assert text != TEXTS[2]


@pytest.mark.parametrize('text', ['two words', 'yes yes yes yes', 'Yes yes YES'])
def test_words_that_have_no_other_order_are_left_out(text):
    assert copy('shuffled_words', [2], talk((*TEXTS[:2], text))) is None


@pytest.mark.parametrize(
    'kind, place, expected',
    [
        ('repeat_partner', 2, TEXTS[1]),
        ('repeat_partner', 4, TEXTS[3]),
        ('repeat_self', 2, TEXTS[0]),
        ('repeat_self', 4, TEXTS[2]),
        ('punctuation', 4, '. . . .'),
        ('truncated', 2, 'I like'),
    ],
)
def test_one_response_is_replaced_and_nothing_else(kind, place, expected):
    texts = list(TEXTS)
    texts[place] = expected
    assert copy(kind, [place]) == texts


def test_a_reply_that_cannot_be_cut_is_left_out():
    assert copy('truncated', [4]) is None


def test_a_copy_that_differs_in_case_and_spaces_only_is_left_out():
    echo = talk(('a', 'Same  here', 'same here'))
    assert copy('repeat_partner', [2], echo) is None


def test_replies_of_another_dialogue_are_used_in_turn():
    others = ['x', 'y']
    assert copy('other_dialogue', [2, 4], others=others) == [
        *TEXTS[:2],
        'x',
        TEXTS[3],
        'y',
    ]
    assert copy('other_dialogue', [2]) is None


def test_a_whole_part_repeats_one_turn_throughout():
    texts = copy('repeat_self', [2, 4])
    assert (texts[2], texts[4]) == (TEXTS[0], TEXTS[0])


def test_parrots_hear_the_last_turn_of_the_partner_and_the_one_before():
    heard = []

    def note(response):
        heard.append(response.heard)

    perturbed_dialogue(talk(), [2, 4], note, [])
    assert heard == [['hi to you'], ['hi to you', 'why is that']]
    [text] = perturbed_dialogue(talk(), [4], parrot('earlier_echo'), []).utterances[4:]
    assert 'hi to you' in text.text and 'why' not in text.text


def test_in_self_play_the_other_side_is_the_partner():
    mirror = talk(names=('bot', 'bot'))
    assert copy('repeat_partner', [2], mirror)[2] == TEXTS[1]
    assert copy('repeat_self', [2], mirror)[2] == TEXTS[0]


def test_nothing_is_repeated_where_nothing_came_before():
    assert copy('repeat_partner', [0]) is None
    assert copy('repeat_self', [0]) is None


def test_copies_depend_on_the_content_alone():
    for perturb in PERTURBATIONS.values():
        response = ResponseInDialogue('one two three four', 'p', 'o', 'x')
        assert perturb(response) == perturb(response)


def test_a_generic_reply_is_one_of_the_list():
    assert copy('generic', [2])[2] in GENERIC


def test_texts_are_compared_without_case_and_spaces():
    assert same_text(' A  b', 'a B')
    assert not same_text('ab', 'a b')


# -------------------- Parrots, by pencil: what each kind makes of a turn, and what


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
