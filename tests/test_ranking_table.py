"""
The table of dialogue means.
"""

import numpy as np
import pytest

from parlai_ext.ranking import table


def test_a_dialogue_mean_leaves_out_utterances_without_score():
    assert table.dialogue_mean([1.0, None, 4.0]) == 2.5


def test_a_dialogue_without_any_score_has_no_mean():
    assert table.dialogue_mean([None, None]) is None


def test_cells_land_at_their_target_partner_and_opener():
    values = table.dense([('b', 'q', 'o1', 3.0)], ['a', 'b'], ['p', 'q'], ['o0', 'o1'])
    assert values[1, 1, 1] == 3.0 and np.isnan(values).sum() == 7


def test_a_dialogue_without_score_is_a_hole_not_zero():
    assert np.isnan(table.dense([('a', 'p', 'o', None)], ['a'], ['p'], ['o'])).all()


def test_two_dialogues_in_one_cell_are_refused():
    cells = [('a', 'p', 'o', None), ('a', 'p', 'o', 1.0)]
    with pytest.raises(ValueError, match='two dialogues of a, p, opener o'):
        table.dense(cells, ['a'], ['p'], ['o'])


def test_a_system_mean_is_over_dialogues_not_over_partners():
    # partner 0: 1, 2, 3; partner 1: 10 only: (1 + 2 + 3 + 10) / 4, not (2 + 10) / 2
    values = np.array([[[1.0, 2.0, 3.0], [10.0, np.nan, np.nan]]])
    assert table.system_means(values).tolist() == [4.0]


@pytest.mark.parametrize(
    'values, systems, wrong',
    [
        (np.zeros((2, 1, 3)), ['a'], 'shape'),
        (np.zeros((1, 3)), ['a'], 'shape'),
        (np.full((1, 1, 1), np.inf), ['a'], 'infinite'),
        (np.zeros((2, 1, 1)), ['a', 'a'], 'twice'),
    ],
)
def test_a_table_that_cannot_be_right_is_refused(values, systems, wrong):
    with pytest.raises(ValueError, match=wrong):
        table.checked(values, systems)


def test_settled_values_tie_when_only_rounding_parts_them():
    settled = table.settled(np.array([0.1 + 0.2, 0.3, 5.0]))
    assert settled[0] == settled[1]


def test_nan_becomes_none_on_the_way_out():
    assert table.plain(float('nan')) is None
