"""
Bounds of a mean with unscored dialogues, by pencil.
"""

import numpy as np
import pytest

from parlai_ext.ranking.standings import ScoreBounds, unscored_bounds

NAN = np.nan
VALUES = np.array([[[1.0, 3.0, NAN, NAN]], [[0.0, 5.0, 5.0, 2.0]]])


def test_bounds_put_the_ends_of_all_scores_in_the_holes():
    # a: (1 + 3 + 2 * 0) / 4 and (1 + 3 + 2 * 5) / 4
    bounds = unscored_bounds(VALUES, ['a', 'b'], [2, 0])
    assert bounds['a'] == ScoreBounds(0.5, 1.0, 3.5)


def test_a_system_scored_throughout_has_its_mean_as_both_bounds():
    bounds = unscored_bounds(VALUES, ['a', 'b'], [2, 0])
    assert bounds['b'] == ScoreBounds(0.0, 3.0, 3.0)


def test_a_system_without_any_score_lies_between_the_ends():
    values = np.array([[[NAN, NAN]], [[2.0, 4.0]]])
    first = unscored_bounds(values, ['a', 'b'], [2, 0])['a']
    assert first == ScoreBounds(1.0, 2.0, 4.0)


def test_without_any_score_at_all_there_are_no_bounds():
    only = unscored_bounds(np.full((1, 1, 2), NAN), ['a'], [2])['a']
    assert only == ScoreBounds(1.0, None, None)


def test_a_system_without_dialogues_has_no_share():
    only = unscored_bounds(np.full((2, 1, 1), NAN), ['a', 'b'], [0, 1])['a']
    assert only.unscored_share is None


def test_a_cell_without_dialogue_is_not_an_unscored_one():
    # all-play-all: the diagonal is empty, and nothing is missing
    values = np.array([[[NAN], [2.0]], [[4.0], [NAN]]])
    bounds = unscored_bounds(values, ['a', 'b'], [0, 0])
    assert [bounds[n].unscored_share for n in 'ab'] == [0.0, 0.0]


def test_counts_must_fit_the_systems():
    with pytest.raises(ValueError):
        unscored_bounds(VALUES, ['a', 'b'], [0])
