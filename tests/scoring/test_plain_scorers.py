"""
Scorers without a language model, by pencil: the trivial ones (length, distinct,
repetition and overlap), relevance, and the human-centred metrics.
"""

import math

import numpy as np
import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.relevance import (
    AGREEABLE,
    EMOTIONS,
    EMPATHIC,
    style_matching,
)
from tests.support.scoring_samples import KnownEncoder, scores_of


def scored(scorer, context, response, speakers=None, models=None, **options):
    """
    Return the score of a response, or of what the last of the speakers said.
    """
    extras = {'speakers': speakers[0]} if speakers else {}
    speaker = speakers[1] if speakers else ''
    item = ScoringItem(context, response, speaker, extras=extras)
    return scores_of(scorer, [item], models, **options)[0]


# --- trivial scorers ------------------------------------------------------------------

DOG = ('i like my dog', 'so do i')
HEARD = ('a bear', 'own turn', 'my dog', 'own too', 'your cat')
GAME = ('a b', 'c', 'a b', 'd e f g')
MUSE = ('a b', 'a c', 'c d', 'd')
TWICE = (('you', 'me', 'me', 'you'), 'you')
TWO = ('me', 'you', 'me', 'you')


@pytest.mark.parametrize(
    'scorer, context, response, expected, speakers, options',
    [
        # what blanks part
        ('length', ('hi',), 'a b  c', 3, None, {}),
        # pairs: no-no, no-no, no-way; two of three differ, capitals do not count
        ('distinct', (), 'no No no way', 2 / 3, None, {}),
        # words: no, way of four
        ('distinct', (), 'no no no way', 2 / 4, None, {'n': 1}),
        # pairs: i-like (said), like-my (said), my-cat
        ('repetition', DOG, 'I like my cat', -2 / 3, None, {}),
        # no pair stands across two utterances: dog-so was not said
        ('repetition', DOG, 'dog so', 0, None, {}),
        # my, cat, cat: `a bear` is too long ago, and own turns do not count
        ('overlap', HEARD, 'My cat. Cat bear own too', 3 / 6, None, {}),
        ('overlap', (), 'hello', 0, None, {}),
        # of a whole dialogue the mean over its speaker's utterances
        ('overlap', MUSE, None, (1 / 2 + 1) / 2, (TWO, 'you'), {}),
        # who spoke twice: of `you` the turn before the last two
        ('overlap', tuple('abc'), 'b c a', 2 / 3, TWICE, {}),
        ('length', GAME, None, (1 + 4) / 2, (TWO, 'you'), {}),
        ('distinct', GAME, None, 1 / 2, (TWO, 'me'), {}),
        # 'a b' is new at first and said before at the second time
        ('repetition', GAME, None, -1 / 2, (TWO, 'me'), {}),
        # nobody says who spoke: all utterances
        ('length', GAME, None, (2 + 1 + 2 + 4) / 4, None, {}),
    ],
)
def test_trivial_scores_by_pencil(
    scorer, context, response, expected, speakers, options
):
    score = scored(scorer, context, response, speakers, **options)
    assert score.values == {'Overall': pytest.approx(expected)}


@pytest.mark.parametrize(
    'scorer, response, why',
    [
        ('repetition', 'word', '2 words'),
        ('overlap', '?!', 'there is no word in what is judged'),
    ],
)
def test_too_few_words_have_no_score(scorer, response, why):
    score = scored(scorer, ('one word',), response)
    assert score.values == {'Overall': None} and why in score.reasons['Overall']


# --- relevance ------------------------------------------------------------------------

KNOWN = {
    '': (0, 0),
    'north': (0, 1),
    'east': (1, 0),
    'north east': (1, 1),
    'nowhere': (0, 0),
}


@pytest.mark.parametrize(
    'context, response, against, expected',
    [
        (('east', 'north'), 'north', 'last_turn', 1),
        (('east', 'north'), 'north east', 'last_turn', 0.5**0.5),
        # turns are joined: against 'east' alone the cosine would be 0
        (('north', 'east'), 'north', 'context', 0.5**0.5),
        (('north', 'north east', 'east', 'nowhere'), 'north', 'nearest', 1),
        # the first of five turns is too long ago
        (
            ('north', 'north east', 'east', 'nowhere', 'east'),
            'north',
            'nearest',
            0.5**0.5,
        ),
    ],
)
def test_cosines_by_pencil(context, response, against, expected):
    score = scored(
        'relevance', context, response, models=KnownEncoder(KNOWN.get), against=against
    )
    assert score.values['Relevance'] == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize('context, why', [((), 'no context'), (('nowhere',), 'zero')])
def test_no_context_or_a_zero_vector_gives_no_score(context, why):
    score = scored('relevance', context, 'north', models=KnownEncoder(KNOWN.get))
    assert score.values == {'Relevance': None}
    assert why in score.reasons['Relevance']


def test_what_the_encoder_does_not_read_of_the_turns_is_counted_too():
    # of each text two letters are read: the response loses 3, the joined turns 8
    encoder = KnownEncoder(lambda text: (1, 1))
    encoder.cut_tokens = lambda texts: [max(0, len(text) - 2) for text in texts]
    models = {'models': encoder, 'against': 'context'}
    assert scored('relevance', ('north', 'east'), 'north', **models).cut == 3 + 8


# --- human-centred metrics ------------------------------------------------------------


def emotion(text):
    """
    Emotions are axes; kind sentences point along the first, unkind ones against it.
    """
    row = np.zeros(len(EMOTIONS))
    if text in EMOTIONS:
        row[EMOTIONS.index(text)] = 1
    elif text == 'torn':
        row[:] = 1
    elif text:
        row[0] = 1 if text in ('joyful', *AGREEABLE[0], *EMPATHIC[0]) else -1
    return row


def scores(context, response):
    return scored(
        'human_centered', context, response, models=KnownEncoder(emotion)
    ).values


def test_a_text_of_all_emotions_has_the_largest_entropy_and_matches_none():
    values = scores(('joyful',), 'torn')
    assert values['Emotional Entropy'] == pytest.approx(math.log(8))
    # of one constant side, Spearman's rho is not defined
    assert values['Emotion Matching'] is None
    # e^10 beside seven times 1: nearly all is joy
    assert scores(('torn',), 'joyful')['Emotional Entropy'] < 0.01


def test_emotions_that_are_the_same_match():
    values = scores(('joyful',), 'joyful')
    assert values['Emotion Matching'] == pytest.approx(1)
    # cosines with the kind sentences are 1, with the unkind ones -1
    assert values['Agreeableness'] == values['Empathy'] == pytest.approx(2)


def test_without_a_turn_before_nothing_matches():
    values = scores((), 'joyful')
    assert values['Style Matching'] is values['Emotion Matching'] is None
    assert values['Emotional Entropy'] is not None
    assert set(scores(('joyful',), ' ').values()) == {None}


def test_style_matching_by_pencil():
    # "i": 1/2 and 1/4 of the words, 1 - (1/4) / (3/4); "the": 0 and 1/4, 0; the other
    # seven classes are in neither text, 1
    assert style_matching('I sing', 'I saw the moon') == pytest.approx(
        (2 / 3 + 0 + 7) / 9, abs=1e-3
    )
