"""
How many dialogues would settle it: the formula against pencil and against simulation.
"""

from dataclasses import replace

import numpy as np
import pytest

from parlai_ext.ranking.intervals import Sampling, draw_means
from parlai_ext.ranking.standings import (
    Components,
    detectable_difference,
    dialogues_needed,
    rank_dimension,
    significantly_better,
    variance_components,
)
from tests.support.noise import noise

REAL = Components(partner=0.05, opener=0.3, dialogue=1.0)


def needed_for(table, partners='sampled'):
    """
    Return what tells two systems with these differences apart.
    """
    values = np.stack([table, np.zeros_like(table)])
    return dialogues_needed(('a', 'b'), values, 1, Sampling(1, 0, partners))


def differences(rng, components, partners, openers, mean):
    """
    Draw the differences of two systems after the model of `separation`.
    """
    a = rng.normal(size=(partners, 1)) * components.partner**0.5
    b = rng.normal(size=(1, openers)) * components.opener**0.5
    e = rng.normal(size=(partners, openers)) * components.dialogue**0.5
    return mean + a + b + e


def test_components_of_four_differences():
    # means of rows 1.5, 4.5, of columns 2, 4, of all 3; residuals +-0.5: e = 1 with one
    # degree of freedom; 4.5 - 1/2 between partners, 2 - 1/2 between openers
    found = variance_components(np.array([[1.0, 2.0], [3.0, 6.0]]))
    assert found == Components(pytest.approx(4.0), pytest.approx(1.5), pytest.approx(1))


def test_one_partner_leaves_the_variance_over_openers():
    # variance of 1, 2, 6 with divisor 2: 7
    assert variance_components(np.array([[1.0, 2.0, 6.0]])) == Components(0, 7.0, 0)


@pytest.mark.parametrize('table', [[[1.0]], [[1.0], [1.0]]])
def test_one_opener_that_does_not_vary_says_nothing_of_openers(table):
    assert variance_components(np.array(table)) is None


def test_systems_that_met_no_partner_in_common_are_told_so():
    met, nobody = [1.0, 2.0, 4.0], [np.nan] * 3
    values = np.array([[met, nobody], [nobody, met]])
    found = dialogues_needed(('a', 'b'), values, 1, Sampling(1, 0, 'sampled'))
    assert found.reason == 'they have no partner in common'


def test_difference_that_sixteen_openers_find():
    # t(.975, 15) = 2.13145 from the tables, normal 80 % = 0.84162, error 2 / sqrt(16)
    found = detectable_difference(Components(0, 4.0, 0), 1, 16, 1, 'fixed')
    assert found == pytest.approx(
        (2.13145 * (16 / 15) ** 0.5 + 0.84162) * 0.5, rel=1e-4
    )


def share_of_claims(components, partners, openers, kind, difference, worlds=400):
    rng, claims = np.random.default_rng(3), 0
    for world in range(worlds):
        one = differences(rng, components, partners, openers, difference)
        values = np.stack([one, np.zeros_like(one)])
        better = significantly_better(draw_means(values, Sampling(300, world, kind)))
        claims += better[0, 1]
    return claims / worlds


@pytest.mark.parametrize(
    'changed, partners, kind',
    [
        pytest.param({'partner': 0.0}, 4, 'fixed', marks=pytest.mark.slow),
        ({}, 12, 'sampled'),
    ],
)
def test_the_difference_is_found_in_four_of_five_worlds(changed, partners, kind):
    components = replace(REAL, **changed)
    difference = detectable_difference(components, partners, 40, 1, kind)
    found = share_of_claims(components, partners, 40, kind, difference)
    # three binomial errors of 400 worlds are 0.06; Student's t widens for both effects
    assert found == pytest.approx(0.8, abs=0.08)


def test_the_number_from_a_pilot_finds_the_difference_again():
    pilot = differences(np.random.default_rng(1), REAL, 8, 400, 0.2)
    pilot += 0.2 - pilot.mean()
    needed = needed_for(pilot, 'fixed')
    assert (needed.n_partners, needed.n_dialogues) == (8, 8 * needed.n_openers)
    real = replace(REAL, partner=0.0)
    found = share_of_claims(real, 8, needed.n_openers, 'fixed', 0.2, worlds=200)
    assert found == pytest.approx(0.8, abs=0.12)


def test_where_partners_decide_more_partners_are_asked_for():
    partners = np.array([0.5, -0.3, 0.9, -0.1])[:, None]
    table = partners + 0.01 * noise(4, 50)
    needed = needed_for(table)
    assert needed.n_partners > 4
    these = needed_for(table, 'fixed')
    assert (these.n_partners, these.n_openers, these.n_dialogues) == (4, 3, 12)


def test_equal_scores_need_no_number():
    needed = needed_for(np.array([[1.0, -1.0, 0.0]]))
    assert needed.n_dialogues is None and needed.reason


def test_two_games_over_an_opener_are_two_dialogues():
    table = differences(np.random.default_rng(2), REAL, 3, 20, 0.3)
    values = np.stack([np.tile(table, 2), np.zeros((3, 40))])
    once = separated(np.stack([table, 0 * table])).needed[-1]
    twice = separated(values, games_per_opener=2).needed[-1]
    assert twice.n_openers == once.n_openers
    assert twice.n_dialogues == 2 * once.n_dialogues


def separated(values, names=None, **options):
    names = names or [f's{i}' for i in range(len(values))]
    n = len(names)
    about = {'ranked': [True] * n, 'counts': [(values[0].size, 0)] * n}
    return rank_dimension(values, names, Sampling(200, 0, **options), **about)[1]


def test_separation_names_the_first_and_those_it_is_not_told_from():
    values = 0.1 * noise(3, 4, 20)
    values -= values.mean(axis=(1, 2), keepdims=True)
    values += np.array([1.0, 5.01, 5.0])[:, None, None]
    found = separated(values)
    assert (found.first, found.not_apart) == ('s1', ('s2',))
    assert (found.n_apart, found.n_pairs) == (2, 3)
    assert [(n.better, n.worse) for n in found.needed] == [('s1', 's2')]


def test_where_nothing_is_apart_the_last_is_compared_too():
    values = noise(3, 4, 20)
    found = separated(values)
    order = [f's{i}' for i in np.argsort(-values.mean(axis=(1, 2)))]
    assert found.n_apart == 0 and found.not_apart == tuple(order[1:])
    assert [n.worse for n in found.needed] == [order[2], order[1]]


def test_no_number_is_for_a_floor():
    values = noise(3, 1, 20)
    best = int(values.mean(axis=(1, 2)).argmax())
    names = ['a' if place == best else f'floor-{place}' for place in range(3)]
    assert separated(values, names).needed == ()


def test_one_system_has_nothing_to_be_told_from():
    assert separated(np.zeros((1, 2, 5))) is None
