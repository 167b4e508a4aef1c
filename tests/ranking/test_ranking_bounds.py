"""
Bounds of a mean with unscored dialogues, by pencil.
"""

import numpy as np
import pytest

from parlai_ext.ranking.standings import ScoreBounds, unscored_bounds

NAN = np.nan
VALUES = [[[1.0, 3.0, NAN, NAN]], [[0.0, 5.0, 5.0, 2.0]]]


@pytest.mark.parametrize(
    'values, n_unscored, bounds',
    [
        # the ends of all scores in the holes: (1 + 3 + 2 * 0) / 4, (1 + 3 + 2 * 5) / 4
        (VALUES, [2, 0], {'a': ScoreBounds(0.5, 1.0, 3.5)}),
        # a system without any score lies between the ends
        ([[[NAN, NAN]], [[2.0, 4.0]]], [2, 0], {'a': ScoreBounds(1.0, 2.0, 4.0)}),
        # no score at all, and one system without dialogues
        (np.full((2, 1, 2), NAN), [2, 0], {'a': ScoreBounds(1.0, None, None)}),
        # all-play-all: the diagonal is empty, and nothing is missing
        ([[[NAN], [2.0]], [[4.0], [NAN]]], [0, 0], {}),
    ],
)
def test_bounds_of_two_systems(values, n_unscored, bounds):
    assert unscored_bounds(np.array(values), ['a', 'b'], n_unscored) == bounds
