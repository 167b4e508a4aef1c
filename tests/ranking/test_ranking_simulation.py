"""
Do intervals cover, and do ranks keep their promise? Known models, many worlds.

Bounds are the nominal rate and three binomial standard errors; the two-way bootstrap
may be wider than need be (Owen 2007), so its coverage is held from below only.
"""

import numpy as np
import pytest

from parlai_ext.ranking.intervals import Sampling, draw_means, intervals_for
from parlai_ext.ranking.standings import significantly_better

WORLDS = 200


def three_errors(rate, trials):
    return 3 * (rate * (1 - rate) / trials) ** 0.5


def crossed(rng, shape):
    """
    Draw crossed random effects around 0, each half as large as the noise; also return
    the means over openers.
    """
    systems, partners, openers = shape
    lasting = 0.5 * rng.normal(size=(1, partners, 1))
    lasting = lasting + 0.5 * rng.normal(size=(systems, partners, 1))
    values = lasting + 0.5 * rng.normal(size=(1, 1, openers))
    values = values + 0.5 * rng.normal(size=(systems, 1, openers))
    return values + rng.normal(size=shape), lasting.mean(axis=(1, 2))


def coverage(shape, partners):
    rng, hits = np.random.default_rng(11), 0
    for world in range(WORLDS):
        values, with_these = crossed(rng, shape)
        truth = with_these[0] if partners == 'fixed' else 0.0
        low, high = intervals_for(draw_means(values, Sampling(400, world)), partners)[0]
        hits += low <= truth <= high
    return hits / WORLDS


def test_partners_fixed_covers_the_mean_with_these_partners():
    found = coverage((1, 8, 40), 'fixed')
    assert found == pytest.approx(0.95, abs=three_errors(0.95, WORLDS))


def test_partners_sampled_covers_the_mean_over_all_partners():
    found = coverage((1, 8, 40), 'sampled')
    assert found >= 0.95 - three_errors(0.95, WORLDS)


def false_claims(shape, partners, worlds, draws=300):
    rng, claims = np.random.default_rng(5), 0
    for world in range(worlds):
        values, with_these = crossed(rng, shape)
        if partners == 'fixed':
            values = values - with_these[:, None, None]  # equal with these partners
        means = draw_means(values, Sampling(draws, world, partners))
        claims += significantly_better(means).any()
    return claims / worlds


def test_equal_systems_with_these_partners_differ_in_5_percent_of_worlds():
    # unadjusted 5 % tests of 10 pairs would claim in more than 20 % of worlds, a
    # method that never claims in none
    found = false_claims((5, 4, 60), 'fixed', WORLDS)
    assert found == pytest.approx(0.05, abs=three_errors(0.05, WORLDS))


def test_equal_systems_over_all_partners_seldom_differ():
    found = false_claims((5, 12, 30), 'sampled', WORLDS)
    assert found <= 0.05 + three_errors(0.05, WORLDS)


@pytest.mark.slow
@pytest.mark.parametrize('partners', ['fixed', 'sampled'])
def test_eleven_equal_systems_seldom_differ(partners):
    found = false_claims((11, 12, 100), partners, 1000, 1000)
    assert found <= 0.05 + three_errors(0.05, 1000)
