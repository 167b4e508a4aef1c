"""
The table of dialogue means.
"""

import numpy as np
import pytest

from parlai_ext.ranking import intervals as table


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
        table.check_table(values, systems)


def test_values_tie_when_only_rounding_parts_them():
    settled = table.round_off_noise(np.array([0.1 + 0.2, 0.3, 5.0]))
    assert settled[0] == settled[1]
