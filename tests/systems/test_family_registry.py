"""
A family is declared once: what one object says holds wherever systems are handled.
"""

from collections import Counter

import pytest

from parlai_ext.core.nouns import System
from parlai_ext.systems import families
from parlai_ext.systems.families import FAMILIES, GENERATOR, PLACE_OPTIONS, family_of
from parlai_ext.systems.family import DOWNLOAD, Family
from parlai_ext.systems.identity import identity, identity_options
from parlai_ext.systems.model_cache import size_on_disk
from parlai_ext.systems.parlai_agents import load_system, samples
from parlai_ext.systems.resolve import resolve
from tests.support.user_error import user_error

AGENT = 'ext:mini_floor'


class Trial(Family):
    agents = (AGENT,)
    weights_options = ('floor_kind',)

    def locate_weights(self, system, datapath):
        return DOWNLOAD, 'http://weights.example/w'

    def weight_bytes(self, system, datapath):
        return 70

    def contents(self, system, opt, datapath):
        return {'name': opt.get('floor_kind', 'none')}

    def local_options(self, system):
        return ('floor_kind',)

    def check(self, opt, error, datapath):
        if opt['floor_kind'] == 'word_salad':
            raise error('floor_kind', 'not today')

    def samples(self, opt):
        return True


@pytest.fixture
def trial(monkeypatch):
    """
    A system of a family that is one object in the registry, and named nowhere else.
    """
    monkeypatch.setitem(families.FAMILIES, 'trial', Trial())
    return System('x', {'model': AGENT, 'floor_kind': 'word_salad'})


def test_a_family_decides_where_weights_are_and_how_large(trial):
    found = resolve(trial)
    assert (found.status, found.where) == (DOWNLOAD, 'http://weights.example/w')
    assert size_on_disk(trial) == 70


def test_a_family_decides_what_identity_is(trial):
    other = System('x', {'model': AGENT, 'floor_kind': 'generic_reply'})
    assert identity_options(trial) == identity_options(other) == {'model': AGENT}
    assert identity(trial) != identity(other)


def test_a_family_refuses_options_before_the_agent_is_built(trial):
    with user_error("^system 'x': floor_kind: not today"):
        load_system(trial)


def test_a_family_decides_whether_replies_are_drawn(trial):
    assert samples(trial) and not samples(System('x', {'model': 'other'}))


def test_no_agent_has_two_families():
    agents = Counter(agent for family in FAMILIES.values() for agent in family.agents)
    assert agents and max(agents.values()) == 1
    assert all(family_of({'model': agent}).agents for agent in agents)


def test_a_system_of_no_family_is_a_generator_in_a_model_file():
    assert (
        family_of({'model_file': '/m', 'model': 'transformer/generator'}) is GENERATOR
    )


def test_options_that_say_where_a_system_is_are_no_part_of_it():
    opt = {'model': 'ext:remote', 'remote_model': 'm', **dict.fromkeys(PLACE_OPTIONS)}
    assert identity_options(System('x', opt)) == {
        'model': 'ext:remote',
        'remote_model': 'm',
    }
