"""
Perturbed copies, by what they must and must not share with the original.
"""

import pytest

from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.judge_check.perturbations import (
    GENERIC,
    PERTURBATIONS,
    ResponseInDialogue,
    parrot,
    perturbed_dialogue,
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
