"""
Which systems talk with each other under each pairing scheme.
"""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.core import PLAYED, SCHEMES, Roster, System
from parlai_ext.store import pairings
from tests.support.user_error import user_error

names = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=9, unique=True)


def paired(targets, partners, scheme):
    roster = Roster(tuple(map(System, targets)), tuple(map(System, partners)))
    identities = {name: 'same' for name in (*targets, *partners)}
    return pairings(roster, scheme, identities)


def pairs(targets, partners, scheme):
    return [(one.first, one.second) for one in paired(targets, partners, scheme)]


@given(names, st.integers(1, 8))
def test_bipartite_has_each_target_and_partner_once_target_first(all_names, cut):
    cut = min(cut, len(all_names) - 1)
    targets, partners = all_names[:cut], all_names[cut:]
    found = pairs(targets, partners, 'bipartite')
    assert found == list(itertools.product(targets, partners))


@given(names)
def test_targets_alone_play_each_other_in_both_roles_or_themselves(targets):
    found = pairs(targets, [], 'all_play_all')
    assert sorted(found) == sorted(itertools.permutations(targets, 2))
    assert pairs(targets, [], 'self_play') == [(name, name) for name in targets]


@given(names)
def test_ids_differ_and_are_safe_file_names(targets):
    ids = [one.id for one in paired(targets, [], 'all_play_all')]
    assert len({name.lower() for name in ids}) == len(ids)
    for name in ids:
        assert re.fullmatch('[A-Za-z0-9_][A-Za-z0-9_-]{0,79}', name)


@pytest.mark.parametrize(
    'name, slug',
    [
        ('mini-a', 'mini-a'),
        ('../../etc', 'etc'),
        ('x' * 300, 'x' * 24),
        ('…', 'x'),
    ],
)
def test_an_id_is_readable_and_ends_in_twelve_digits(name, slug):
    [one] = paired([name], ['CON'], 'bipartite')
    assert re.fullmatch(f'{re.escape(slug)}--CON-[0-9a-f]{{12}}', one.id)


def test_an_id_depends_on_what_a_system_is_and_not_on_a_path():
    def id_of(weights, path):
        one = Roster((System('a', {'model_file': path}),), (System('p'),))
        return pairings(one, 'bipartite', {'a': weights, 'p': 'q'})[0].id

    assert id_of('1', '/home/me/model') == id_of('1', '/mnt/m') != id_of('2', '/mnt/m')


@pytest.mark.parametrize(
    'targets, partners, scheme, words',
    [
        ('', 'p', 'bipartite', 'no targets'),
        ('aba', 'p', 'bipartite', "'a'"),
        ('a', 'pp', 'bipartite', "'p'"),
        ('ab', 'pb', 'bipartite', "more than once: 'b'"),
        ('a', '', 'all_play_all', 'at least 2'),
    ],
)
def test_a_roster_that_cannot_be_paired_is_refused_by_name(
    targets, partners, scheme, words
):
    with user_error(re.escape(words)):
        paired(targets, partners, scheme)


@pytest.mark.parametrize('name', PLAYED)
def test_roles_are_swapped_by_the_schemes_that_say_so(name):
    drawn = set(pairs(['a', 'b', 'c'], ['p'], name))
    swapped = {(second, first) for first, second in drawn if first != second}
    assert SCHEMES[name].swaps_roles == bool(swapped and swapped <= drawn)


@pytest.mark.parametrize(
    'name, partners, met, opponents',
    [
        # those who answer; outside of bipartite-play a roster has no partners
        ('bipartite', 'pq', None, ('p', 'q')),
        ('self_play', '', None, ('itself',)),
        ('all_play_all', '', None, ('a', 'b')),
        # in imported dialogues either may begin: a person `p` asks and is asked
        ('imported', 'p', ['ab'], ('a', 'b')),
        ('imported', 'p', ['pa', 'ab'], ('a', 'b', 'p')),
    ],
)
def test_opponents_are_those_who_are_met(name, partners, met, opponents):
    met = [(*pair,) for pair in met] if met else pairs('ab', partners, name)
    assert SCHEMES[name].opponents('ab', partners, met) == opponents
