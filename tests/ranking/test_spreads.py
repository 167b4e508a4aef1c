import numpy as np
import pytest

from parlai_ext.ranking.pairs import BINS, cell_means, spreads

NAN = float('nan')


def test_quantiles_of_a_hundred_and_one_dialogues():
    # 0 … 100: the quantile q is 100 q
    spread = spreads(np.arange(101.0)[None, None, :], ['a'])['a']
    assert spread.quantiles == pytest.approx((5, 25, 50, 75, 95))
    assert (spread.n, spread.lowest, spread.highest) == (101, 0, 100)


def test_every_dialogue_is_in_one_bin_of_a_scale_for_all():
    values = np.array([[[0.0, 0.1, NAN]], [[24.0, 23.5, 12.0]]])
    found = spreads(values, ['low', 'high'])
    # 24 bins from 0 to 24
    assert found['low'].counts == (2, *[0] * (BINS - 1))
    assert found['high'].counts[12] == 1 and found['high'].counts[-1] == 2


def test_equal_scores_have_a_scale_all_the_same():
    spread = spreads(np.full((1, 1, 3), 7.0), ['a'])['a']
    assert spread.lowest < 7 < spread.highest and sum(spread.counts) == 3


def test_a_system_without_scores_has_no_spread():
    assert spreads(np.array([[[NAN]], [[1.0]]]), ['a', 'b']).keys() == {'b'}
    assert spreads(np.full((1, 1, 1), NAN), ['a']) == {}


def test_cells_are_means_over_openers():
    values = np.array([[[1.0, 3.0], [NAN, NAN], [5.0, NAN]]])
    cells = cell_means(values, ['a'], ['x', 'y', 'z'])['a']
    assert {k: (c.mean, c.n) for k, c in cells.items()} == {'x': (2, 2), 'z': (5, 1)}
