"""
Variance shares against planted components, pencil, and another program.
"""

import numpy as np
import pytest

from parlai_ext.audit.dependence import REST, variance_shares


def planted(shape, variances, rng):
    """
    Return scores with these variances of system, partner, opener, system × partner and
    the rest.
    """
    t, p, j = shape
    parts = [(t, 1, 1), (1, p, 1), (1, 1, j), (t, p, 1), shape]
    return sum(
        rng.normal(scale=np.sqrt(variance), size=part)
        for variance, part in zip(variances, parts, strict=True)
    )


def test_planted_components_come_back_on_average():
    # an all-play-all: missing cells leave the estimates unbiased
    variances = (4.0, 1.0, 2.0, 0.5, 3.0, 0.0, 0.0)
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(60):
        values = planted((8, 8, 15), variances[:5], rng)
        values[np.arange(8), np.arange(8)] = np.nan
        estimates.append(variance_shares(values).components)
    names = ('system', 'partner', 'opener', 'system × partner', REST)
    names += ('system × opener', 'partner × opener')
    for name, variance in zip(names, variances, strict=True):
        drawn = [one[name] for one in estimates]
        # 60 unbiased estimates: the mean is within four standard errors
        error = np.std(drawn, ddof=1) / np.sqrt(len(drawn))
        assert np.mean(drawn) == pytest.approx(variance, abs=4 * error), name


def test_shrout_and_fleiss_1979():
    # table 2 of "Intraclass correlations": six targets, four judges; its table 4 has
    # the mean squares 11.24 between targets, 32.49 between judges, 1.02 residual
    scores = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8]]
    scores += [[7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
    result = variance_shares(np.array(scores, float)[:, None, :])
    found = [result.components[name] for name in ('system', 'opener', REST)]
    expected = [(11.24 - 1.02) / 4, (32.49 - 1.02) / 6, 1.02]
    # ICC(2,1) = .29 is the share of targets
    found, expected = [*found, result.shares['system']], [*expected, 0.29]
    assert found == pytest.approx(expected, abs=0.005)


@pytest.mark.parametrize(
    'values',
    [
        np.ones((3, 2, 4)),
        np.ones((1, 1, 1)),
        np.full((2, 2, 2), np.nan),
        # the second partner over the second opener alone
        np.pad(np.ones((2, 1, 1)), [(0, 0), (1, 0), (1, 0)], constant_values=np.nan),
    ],
    ids=['constant', 'single', 'empty', 'one cell each'],
)
def test_what_cannot_be_told_apart_has_no_shares(values):
    assert variance_shares(values) is None
