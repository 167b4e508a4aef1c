"""
Correlation Re-Scaling: weights by pencil, and what a response scores by them.
"""

import pytest

from parlai_ext.files.yaml_file import Document
from parlai_ext.scoring.composite import Term
from parlai_ext.scoring.crs import METRICS, read_terms, rescaled_weights
from tests.support.user_error import user_error

SCALE = {name: {'centre': 0.0, 'spread': 1.0} for name in METRICS}


def test_correlations_below_zero_weigh_nothing():
    # 0.3 : 0.1, and the larger is 3/4 of the sum: the first power is enough
    weights = rescaled_weights({'a': 0.3, 'b': 0.1, 'c': -0.4})
    assert weights == pytest.approx({'a': 0.75, 'b': 0.25, 'c': 0})


def test_weights_that_are_alike_are_raised_to_a_power():
    # 0.4 and three of 0.3: 0.4 / 1.3 < 1/3, 0.16 / 0.43 > 1/3
    weights = rescaled_weights({'a': 0.4, 'b': 0.3, 'c': 0.3, 'd': 0.3})
    assert weights == pytest.approx({'a': 16 / 43, **dict.fromkeys('bcd', 9 / 43)})


def test_equal_correlations_weigh_the_same_and_none_nothing():
    assert rescaled_weights(dict.fromkeys('abcd', 0.2)) == pytest.approx(
        dict.fromkeys('abcd', 0.25)
    )
    assert rescaled_weights({'a': -0.1, 'b': 0.0}) == {'a': 0, 'b': 0}


def test_weights_of_a_quality_are_the_mean_over_its_sets():
    one = dict(zip(METRICS, (0.2, 0.2, 0.0, 0.0), strict=True))  # 1/2, 1/2
    other = dict(zip(METRICS, (0.0, 0.5, 0.0, -1.0), strict=True))  # 0, 1
    data = {'metrics': SCALE, 'correlations': {'Wit': {'x': one, 'y': other}}}
    terms = read_terms(Document(data, 'mine.yaml'))
    weights = {name: term.weight for name, term in terms['Wit'].items()}
    assert weights == pytest.approx(dict(zip(METRICS, (0.25, 0.75, 0, 0), strict=True)))
    assert terms['Wit']['length'] == Term(0.0, 1.0, 0.0)


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
    with user_error(place):
        read_terms(Document(data, 'mine.yaml'))
