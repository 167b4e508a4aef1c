"""
A family is declared once: what one object says holds wherever systems are handled.
"""

from collections import Counter

from parlai_ext.core.nouns import System
from parlai_ext.systems.families import FAMILIES, GENERATOR, PLACE_OPTIONS, family_of
from parlai_ext.systems.identity import identity_options


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
