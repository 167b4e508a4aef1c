"""
Embedding average, extrema and greedy: by pencil, on vectors of two numbers.
"""

import pytest

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.registry import find_scorer
from tests.support.on_cpu import models_on_cpu

VECTORS = """
east 1 0
north 0 1
south 0 -2
west -1 0
nothing 0 0
""".lstrip()
HALF = 0.5**0.5  # the cosine of 45 degrees


@pytest.fixture
def vectors(tmp_path):
    path = tmp_path / 'vectors.txt'
    path.write_text(VECTORS)
    return str(path)


def overall(scorer, vectors, response, *texts):
    models = models_on_cpu()
    made = find_scorer(scorer).from_section({'vectors': vectors}, models)
    [score] = made.checked_scores([ScoringItem((), response, references=texts)])
    return score.values['Overall']


AVERAGE, EXTREMA, GREEDY = 'embedding_average', 'embedding_extrema', 'embedding_greedy'


@pytest.mark.parametrize(
    ('scorer', 'expected'),
    [
        # means (1/2, 1/2) and (1, 0)
        (AVERAGE, HALF),
        # extrema (1, 1) and (1, 0)
        (EXTREMA, HALF),
        # east 1, north 0: 1/2; and back east 1: (1/2 + 1) / 2
        (GREEDY, 3 / 4),
    ],
)
def test_two_words_against_one_of_them(vectors, scorer, expected):
    assert overall(scorer, vectors, 'East North', 'east') == pytest.approx(expected)
    assert overall(scorer, vectors, 'east', 'East North') == pytest.approx(expected)


def test_extrema_takes_what_is_farthest_from_zero(vectors):
    # north 1 and south -2: -2, that of south
    assert overall(EXTREMA, vectors, 'north south', 'south') == pytest.approx(1)
    # the means are (0, -1/2) and (0, -2)
    assert overall(AVERAGE, vectors, 'north south', 'south') == pytest.approx(1)
    # of 1 and -1 the positive one
    assert overall(EXTREMA, vectors, 'east west', 'east') == pytest.approx(1)
    # whose mean is zero, which has no direction
    assert overall(AVERAGE, vectors, 'east west', 'east') is None


@pytest.mark.parametrize('scorer', [AVERAGE, EXTREMA, GREEDY])
def test_words_without_a_vector_are_left_out(vectors, scorer):
    assert overall(scorer, vectors, 'xyzzy east!', 'east') == pytest.approx(1)
    assert overall(scorer, vectors, 'xyzzy', 'east') is None
    assert overall(scorer, vectors, 'east', 'xyzzy') is None
    assert overall(scorer, vectors, 'nothing', 'east') is None
    assert overall(scorer, vectors, 'east', 'xyzzy', 'north', 'east') == (
        pytest.approx(1)
    )
