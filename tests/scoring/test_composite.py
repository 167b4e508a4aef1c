"""
Composite: terms by pencil, bounds as properties, and planted responses that must lose;
and Correlation Re-Scaling: weights by pencil.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext import zoo_configs
from parlai_ext.core.records import WrongType, read_record
from parlai_ext.files import read_file
from parlai_ext.judge_check.perturbations import PARROTS, parrot_text
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.learned import (
    HIGHEST,
    LOWEST,
    METRICS,
    TERMS,
    Composite,
    CompositeWeights,
    CrsCorrelations,
    Term,
    new_words,
    overall_score,
    repeated_words_share,
    rescaled_weights,
    words_of,
)
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.scoring.score_run import ChosenScorer
from tests.support.scoring_samples import KnownJudge
from tests.support.user_error import user_error
from tests.support.written import written

SAID = ('I bought a red car today.', 'Which one did you buy?', 'The small one.')
GOOD = 'A Fiat, it was cheap and it drives well.'


class KnownModels(KnownJudge):
    """
    Models that like every text: probability 1 after a context, cosine 1.
    """

    def __init__(self, tell=lambda context, text: (0.0,)):
        super().__init__(tell)

    def embedder(self, name):
        return self

    def encode(self, texts):
        return np.ones((len(texts), 2))


def overall(response, context=SAID, models=None, **options):
    options = {'judge_model_file': 'known', 'encoder': 'known', **options}
    scorer = Composite.from_section(options, models or KnownModels())
    [score] = scorer.checked_scores([ScoringItem(context, response)])
    return score.values['Overall']


# --- what is repeated -----------------------------------------------------------------


@pytest.mark.parametrize(
    'response, earlier, expected',
    [
        # pairs: a-b b-c c-d, all of them said before: 2 * 1 - 1
        ('a b c d', ['x', 'a b c d'], 1),
        # three of four pairs: 2 * 3/4 - 1
        ('a b c d e', ['a b c d'], 0.5),
        # half of the pairs is no repetition, and utterances do not add up
        ('a b c d e', ['a b c', 'c d e'], 0),
        # a-b is there twice among a-b b-a a-b
        ('a b a b', [], 2 / 3),
        ('Ok!', ['ok'], 1),
        ('ok', ['ok, let us go'], 0),
    ],
)
def test_repeated_words_share_by_pencil(response, earlier, expected):
    share = repeated_words_share(words_of(response), [*map(words_of, earlier)])
    assert share == pytest.approx(expected)


# --- what is new ----------------------------------------------------------------------


@pytest.mark.parametrize(
    'context, response, expected',
    [
        (('I like my dog.',), 'You say I like my dog, and I agree.', 'say and agree'),
        # persons do not count: a mirror has no word of its own
        (('I like my dog.',), 'You like your dog!', ''),
        (("I'm sad",), "You’re sad? I'm sorry.", 'sorry'),
        # the partner's last two turns count, neither own turns nor older ones
        (('a bear', 'own', 'a cat', 'own', 'a dog'), 'bear, own, cat, dog', 'bear own'),
        ((), 'Hello there', 'hello there'),
    ],
)
def test_new_words_by_pencil(context, response, expected):
    assert new_words(ScoringItem(context, response)) == expected.split()


class TopicModels(KnownModels):
    """
    Finds every text equally likely, and texts alike by their share of words about dogs.
    """

    def encode(self, texts):
        about = [
            sum(word in ('dog', 'puppy', 'leash', 'bark') for word in words_of(text))
            for text in texts
        ]
        rest = [0.1 * len(words_of(text)) for text in texts]
        return np.array([about, rest]).T + 1e-9


ABOUT_A_DOG = ('A dog can bark.', 'I have a dog.')


@pytest.mark.parametrize('kind', PARROTS)
def test_what_says_something_is_above_every_parrot(kind):
    heard = (ABOUT_A_DOG[1], ABOUT_A_DOG[1])
    models = TopicModels()
    reply = 'Is it still a puppy, and does it bark when it is on a leash?'
    own = overall(reply, ABOUT_A_DOG, models)
    for number in range(len(PARROTS[kind].wordings())):
        text = parrot_text(kind, heard, number)
        assert overall(text, ABOUT_A_DOG, models) < own, text


# --- the score ------------------------------------------------------------------------


def test_overall_by_pencil():
    terms = {
        'likelihood': Term(centre=-3, spread=2, weight=0.75),
        'relevance': Term(centre=8, spread=4, weight=0.25),
    }
    # (-2 - -3) / 2 = 0.5 and (12 - 8) / 4 = 1
    values = {'likelihood': -2.0, 'relevance': 12.0}
    assert overall_score(terms, values, 0) == pytest.approx(0.75 * 0.5 + 0.25 * 1)
    # half of it repeated: half of the way to -2
    assert overall_score(terms, values, 0.5) == pytest.approx((0.625 - 2) / 2)
    # a term without a value counts as its centre
    values['relevance'] = None
    assert overall_score(terms, values, 0) == pytest.approx(0.75 * 0.5)


numbers = st.floats(-1e9, 1e9)
SHIPPED = Composite.from_section({}).terms


@given(numbers, numbers, numbers, st.floats(0, 1))
def test_no_term_can_run_away(likelihood, cosine, length, repeated):
    values = dict(zip(TERMS, (likelihood, cosine, length), strict=True))
    score = overall_score(SHIPPED, values, repeated)
    assert LOWEST - 1e-9 <= score <= HIGHEST + 1e-9


@pytest.mark.parametrize(
    'response', [SAID[-1], SAID[1], SAID[0], '. . . .', '', 'no no no no']
)
def test_nothing_helps_a_response_that_repeats_or_has_no_word(response):
    # although the models find every text likely and relevant
    assert overall(response) == LOWEST
    assert LOWEST < overall(GOOD) <= HIGHEST and overall(GOOD, context=()) > LOWEST


def test_a_response_without_a_probability_has_no_score():
    assert overall(GOOD, models=KnownModels(lambda *_: (-math.inf,))) is None


# --- weights --------------------------------------------------------------------------


def test_the_name_of_the_weights_is_not_signed_but_their_numbers_are(tmp_path):
    def signature(weights):
        section = {'judge_model_file': 'x', 'encoder': 'x', 'weights': weights}
        return Composite.from_section(section, KnownModels()).signature

    text = 'terms: {likelihood: {centre: -3, spread: 1, weight: 1}}\n'
    texts = {'one': text, 'same': text, 'other': text.replace('-3', '-4')}
    one, same, other = (
        signature(str(written(tmp_path, f'{name}.yaml', data)))
        for name, data in texts.items()
    )
    assert one == same != other


@pytest.mark.parametrize(
    'term, key',
    [
        ('likelyhood: {centre: 0, spread: 1, weight: 1}', 'likelyhood'),
        ('likelihood: {centre: 0, spread: 1}', 'weight'),
        ('likelihood: {centre: 0, spread: 0, weight: 1}', 'spread'),
        ('likelihood: {centre: 0, spread: 1, weight: 0.5}', 'sum to 1'),
    ],
)
def test_mistakes_in_a_file_of_weights_are_named(tmp_path, term, key):
    path = written(tmp_path, 'mine.yaml', f'terms:\n  {term}\n')
    doc = read_file(path)
    with user_error(f'mine.yaml:[12].*{key}'):
        doc.record(CompositeWeights)


def test_the_protocols_of_papers_and_demos_keep_theirs():
    folder = zoo_configs.HOME / 'protocols'
    papers = [path.stem for path in folder.glob('*_2022.yaml')]
    names = [*papers, 'demo', 'chatmatch_demo', 'fed_table1_demo']
    scorers = {load_protocol_file(n).protocol.scorer['name'] for n in names}
    assert scorers <= {'fed', 'chatmatch'}


def test_where_its_models_are_absent_one_line_names_another_scorer():
    chosen = ChosenScorer({'name': 'composite', 'judge_model_file': '/no/such/model'})
    for build in (chosen.check, chosen.build):
        with user_error('/no/such/model.*--scorer fed'):
            build()


SCALE = {name: {'centre': 0.0, 'spread': 1.0} for name in METRICS}


@pytest.mark.parametrize(
    'correlations, weights',
    [
        # below zero nothing; 0.3 : 0.1, and the larger is 3/4 of the sum: the first
        # power is enough
        ({'a': 0.3, 'b': 0.1, 'c': -0.4}, {'a': 0.75, 'b': 0.25, 'c': 0}),
        # what is alike is raised to a power: 0.4 / 1.3 < 1/3, 0.16 / 0.43 > 1/3
        (
            {'a': 0.4, **dict.fromkeys('bcd', 0.3)},
            {'a': 16 / 43, **dict.fromkeys('bcd', 9 / 43)},
        ),
        # equal ones weigh the same, and none nothing
        (dict.fromkeys('abcd', 0.2), dict.fromkeys('abcd', 0.25)),
        ({'a': -0.1, 'b': 0.0}, {'a': 0, 'b': 0}),
    ],
)
def test_rescaled_weights_by_pencil(correlations, weights):
    assert rescaled_weights(correlations) == pytest.approx(weights)


def test_weights_of_a_quality_are_the_mean_over_its_sets():
    one = dict(zip(METRICS, (0.2, 0.2, 0.0, 0.0), strict=True))  # 1/2, 1/2
    other = dict(zip(METRICS, (0.0, 0.5, 0.0, -1.0), strict=True))  # 0, 1
    data = {'metrics': SCALE, 'correlations': {'Wit': {'x': one, 'y': other}}}
    terms = read_record(CrsCorrelations, data).terms()
    weights = {name: term.weight for name, term in terms['Wit'].items()}
    assert weights == pytest.approx(dict(zip(METRICS, (0.25, 0.75, 0, 0), strict=True)))
    assert terms['Wit']['length'] == Term(centre=0.0, spread=1.0, weight=0.0)


@pytest.mark.parametrize(
    'data, place',
    [
        ({'metrics': SCALE, 'correlations': {}}, 'correlations'),
        ({'metrics': SCALE, 'correlations': {'Wit': {}}}, 'correlations.Wit'),
        ({'metrics': SCALE, 'correlations': {'Wit': {'x': {}}}}, 'correlations.Wit.x'),
        ({'metrics': {}, 'correlations': {}}, 'metrics.likelihood'),
    ],
)
def test_a_mistake_in_the_file_is_named(data, place):
    with pytest.raises(WrongType, match=place):
        read_record(CrsCorrelations, data)
