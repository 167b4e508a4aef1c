"""
Embedding average, extrema and greedy, and BERTScore: by pencil, on vectors of two
numbers, and against BERTScore's library on a tiny encoder; ties of all similarities.
"""

import math
from functools import partial

import numpy as np
import pytest

from parlai_ext.models.encoders import TokenVectors
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.references import token_f1
from parlai_ext.scoring.registry import find_scorer
from tests.support.scoring_samples import overall, scores_of
from tests.support.tiny_models import WORDS, sentences
from tests.support.tiny_trained import make_encoder
from tests.support.user_error import user_error

VECTORS = """
east 1 0
north 0 1
south 0 -2
west -1 0
nothing 0 0
""".lstrip()
HALF = 0.5**0.5  # the cosine of 45 degrees


@pytest.fixture
def by_vectors(tmp_path):
    """
    Return a function that scores a response by these vectors.
    """
    path = tmp_path / 'vectors.txt'
    path.write_text(VECTORS)
    return partial(overall, vectors=str(path))


AVERAGE, EXTREMA, GREEDY = 'embedding_average', 'embedding_extrema', 'embedding_greedy'


@pytest.mark.parametrize(
    'scorer, expected',
    [
        # means (1/2, 1/2) and (1, 0)
        (AVERAGE, HALF),
        # extrema (1, 1) and (1, 0)
        (EXTREMA, HALF),
        # east 1, north 0: 1/2; and back east 1: (1/2 + 1) / 2
        (GREEDY, 3 / 4),
    ],
)
def test_two_words_against_one_of_them(by_vectors, scorer, expected):
    assert by_vectors(scorer, 'East North', 'east') == pytest.approx(expected)
    assert by_vectors(scorer, 'east', 'East North') == pytest.approx(expected)


def test_extrema_takes_what_is_farthest_from_zero(by_vectors):
    # north 1 and south -2: -2, that of south
    assert by_vectors(EXTREMA, 'north south', 'south') == pytest.approx(1)
    # the means are (0, -1/2) and (0, -2)
    assert by_vectors(AVERAGE, 'north south', 'south') == pytest.approx(1)
    # of 1 and -1 the positive one
    assert by_vectors(EXTREMA, 'east west', 'east') == pytest.approx(1)
    # whose mean is zero, which has no direction
    assert by_vectors(AVERAGE, 'east west', 'east') is None


@pytest.mark.parametrize('scorer', [AVERAGE, EXTREMA, GREEDY])
def test_words_without_a_vector_are_left_out(by_vectors, scorer):
    assert by_vectors(scorer, 'xyzzy east!', 'east') == pytest.approx(1)
    assert by_vectors(scorer, 'xyzzy', 'east') is None
    assert by_vectors(scorer, 'east', 'xyzzy') is None
    assert by_vectors(scorer, 'nothing', 'east') is None
    assert by_vectors(scorer, 'east', 'xyzzy', 'north', 'east') == (pytest.approx(1))


EAST, NORTH, WEST = (1, 0), (0, 1), (-1, 0)
LONG = 'a ' * 30  # more tokens than the encoder has positions


def tokens(*rows, ends=0):
    """
    Return the vectors of a text whose first tokens do not count.
    """
    of_text = np.arange(len(rows)) >= ends
    return TokenVectors(np.array(rows, np.float32), of_text)


def test_f1_by_pencil():
    # precision: east 1, north 0; recall: east 1: F1 = 2 * (1/2) * 1 / (3/2)
    score = token_f1(tokens(EAST, NORTH), tokens(EAST))
    assert score == pytest.approx(2 / 3)
    # lengths of vectors do not count
    assert token_f1(tokens((5, 0)), tokens((0.1, 0))) == pytest.approx(1)


def test_ends_may_be_matched_and_count_nothing():
    # north finds the end of the reference, which is north; east counts for nobody
    response, reference = tokens(EAST, NORTH, ends=1), tokens(NORTH, EAST, ends=1)
    assert token_f1(response, reference) == pytest.approx(1)
    assert token_f1(tokens(EAST, ends=1), reference) is None


def test_texts_that_are_nowhere_alike_have_no_f1():
    # precision 0 and recall -1/2, for which 2PR / (P + R) means nothing
    assert token_f1(tokens(EAST), tokens(NORTH, WEST)) is None


@pytest.fixture(scope='module')
def encoder(tmp_path_factory):
    return make_encoder(tmp_path_factory.mktemp('encoder'), n_layers=3)


def scores(encoder, pairs, **options):
    items = [ScoringItem((), response, references=(text,)) for response, text in pairs]
    return scores_of('bertscore', items, encoder=encoder, **options)


@pytest.mark.parametrize('layer', [1, 3])
def test_the_scores_are_those_of_the_library(encoder, layer):
    bert_score = pytest.importorskip('bert_score', reason='the library to compare with')
    texts = [*sentences(12), 'one', LONG]
    pairs = list(zip(texts, [*texts[1:], texts[0]], strict=True))
    library = bert_score.BERTScorer(
        model_type=encoder, num_layers=layer, idf=False, device='cpu'
    )
    library._tokenizer.model_max_length = 24  # which this tokenizer does not know
    _, _, expected = library.score(*map(list, zip(*pairs, strict=True)))
    values = [s.values['Overall'] for s in scores(encoder, pairs, layer=layer)]
    assert values == pytest.approx(expected.tolist(), abs=1e-5)


def test_layer_0_is_the_last_one(encoder):
    pairs = [tuple(sentences(2))]
    [last], [third], [first] = (scores(encoder, pairs, layer=n) for n in (0, 3, 1))
    assert last.values == third.values != first.values
    with user_error('layer 4: .*3 layers'):
        scores(encoder, pairs, layer=4)


def test_tokens_that_are_not_read_are_counted(encoder):
    [score] = scores(encoder, [(LONG, 'a')])
    assert score.cut == 6
    assert math.isfinite(score.values['Overall'])


@pytest.mark.parametrize(
    'scorer',
    [AVERAGE, EXTREMA, GREEDY, 'bertscore', 'relevance', 'amfm_references'],
)
def test_texts_that_are_all_the_same_as_theirs_tie(
    scorer, encoder, gpt2_folder, tmp_path
):
    # a test set of DSTC10 has judged people's replies, each its own reference
    table = tmp_path / 'vectors.txt'
    rows = np.random.default_rng(0).normal(size=(len(WORDS), 30))
    table.write_text(
        ''.join(
            f'{word} {" ".join(map(str, row))}\n'
            for word, row in zip(WORDS, rows, strict=True)
        )
    )
    named = {'encoder': encoder, 'vectors': str(table), 'judge_model_file': gpt2_folder}
    known = vars(find_scorer(scorer).options_class())
    options = {key: value for key, value in named.items() if key in known}
    items = [ScoringItem((text,), text, references=(text,)) for text in sentences(40)]
    values = [score.values for score in scores_of(scorer, items, **options)]
    dimension = find_scorer(scorer).dimensions[0]
    assert {value[dimension] for value in values} == {1}
