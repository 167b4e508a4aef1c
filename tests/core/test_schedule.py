"""
Who talks with whom, over which openers.
"""

import itertools
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Opener, Roster, System
from parlai_ext.core.schedule import (
    dialogue_id,
    pairings,
    sample_openers,
)

names = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=9, unique=True)


def roster(targets, partners=()):
    return Roster(tuple(map(System, targets)), tuple(map(System, partners)))


def paired(targets, partners, scheme):
    identities = {name: 'same' for name in (*targets, *partners)}
    return pairings(roster(targets, partners), scheme, identities)


def pairs(targets, partners, scheme):
    return [(one.first, one.second) for one in paired(targets, partners, scheme)]


def openers(n):
    return [Opener.of([f'hello {i}', 'hi'], 'test') for i in range(n)]


# -- pairings


@given(names, st.integers(1, 8))
def test_bipartite_has_each_target_and_partner_once_target_first(all_names, cut):
    targets, partners = all_names[:cut], all_names[cut:]
    if not partners:
        targets, partners = all_names[:1], all_names[1:]
    found = pairs(targets, partners, 'bipartite')
    assert found == list(itertools.product(targets, partners))


@given(names)
def test_all_play_all_has_each_ordered_pair_once(targets):
    found = pairs(targets, [], 'all_play_all')
    assert sorted(found) == sorted(itertools.permutations(targets, 2))


@given(names)
def test_self_play_pairs_each_target_with_itself(targets):
    assert pairs(targets, [], 'self_play') == [(name, name) for name in targets]


@pytest.mark.parametrize(
    'scheme, number', [('self_play', 11), ('all_play_all', 110), ('bipartite', 264)]
)
def test_the_papers_eleven_targets_give_its_numbers_of_pairs(scheme, number):
    # bipartite-play paper: 11 targets, 24 partners; 11, 110 and 264 pairs
    targets = [f't{i}' for i in range(11)]
    partners = [f'p{i}' for i in range(24)]
    assert len(paired(targets, partners, scheme)) == number


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
        ('a\0b', 'a-b'),
        ('x' * 300, 'x' * 24),
        ('…', 'x'),
        ('', 'x'),
        ('-rf', 'rf'),
    ],
)
def test_an_id_is_readable_and_ends_in_twelve_digits(name, slug):
    [one] = paired([name], ['CON'], 'bipartite')
    assert re.fullmatch(f'{re.escape(slug)}--CON-[0-9a-f]{{12}}', one.id)


def test_an_id_depends_on_what_a_system_is():
    one = roster(['a'], ['p'])
    before = pairings(one, 'bipartite', {'a': 'weights 1', 'p': 'q'})
    after = pairings(one, 'bipartite', {'a': 'weights 2', 'p': 'q'})
    assert before[0].id != after[0].id


def test_an_id_does_not_depend_on_options_such_as_a_path():
    def at(path):
        one = Roster((System('a', {'model_file': path}),), (System('p'),))
        return pairings(one, 'bipartite', {'a': '1', 'p': '2'})[0].id

    assert at('/home/me/model') == at('/mnt/model')


@pytest.mark.parametrize(
    'targets, partners, scheme, words',
    [
        (['a'], ['p'], 'bipartit', "unknown pairing 'bipartit'"),
        ([], ['p'], 'bipartite', 'no targets'),
        (['a'], [], 'bipartite', 'needs partners'),
        (['a', 'b', 'a'], ['p'], 'bipartite', "'a'"),
        (['a'], ['p', 'p'], 'bipartite', "'p'"),
        (['a', 'b'], ['p', 'b'], 'bipartite', "both target and partner: 'b'"),
        (['a'], [], 'all_play_all', 'at least two'),
    ],
)
def test_what_cannot_be_paired_is_refused_by_name(targets, partners, scheme, words):
    with pytest.raises(UserError, match=re.escape(words)):
        paired(targets, partners, scheme)


def test_every_dialogue_of_a_run_has_its_own_id():
    ids = {
        dialogue_id(pair.id, opener.id)
        for pair in paired(['a', 'b', 'c'], [], 'all_play_all')
        for opener in openers(20)
    }
    assert len(ids) == 6 * 20


# -- openers


@given(st.integers(1, 30), st.integers(0, 30), st.integers())
def test_a_sample_has_different_openers_of_the_set(n, more, seed):
    every = openers(n + more)
    sample = sample_openers(every, n, seed)
    assert len(set(sample)) == n
    assert set(sample) <= set(every)


@given(st.permutations(openers(12)), st.integers(0, 5))
def test_a_sample_does_not_depend_on_the_order_of_reading(shuffled, seed):
    assert sample_openers(shuffled, 7, seed) == sample_openers(openers(12), 7, seed)


@given(st.integers(1, 19), st.integers(0, 5))
def test_a_longer_sample_begins_with_the_shorter_one(n, seed):
    longer = sample_openers(openers(20), n + 1, seed)
    assert longer[:n] == sample_openers(openers(20), n, seed)


def test_the_draw_is_the_hash_of_seed_and_id():
    # printf 'opener:7:a' | sha256sum  begins with 5d3b06e0; b 9cc45459; c 94403778
    every = [Opener(name, (name,), 'test') for name in 'abc']
    sample = sample_openers(every, 3, 7)
    assert [opener.id for opener in sample] == ['a', 'c', 'b']


def test_every_opener_is_drawn_equally_often():
    # 3000 seeds, 3 of 12: each expected 750 times, standard deviation 23.7
    counts = dict.fromkeys((one.id for one in openers(12)), 0)
    for seed in range(3000):
        for one in sample_openers(openers(12), 3, seed):
            counts[one.id] += 1
    assert all(abs(n - 750) < 5 * 23.7 for n in counts.values())


def test_repeated_openers_are_drawn_once_and_counted(caplog):
    caplog.set_level(logging.INFO)
    every = openers(3) + openers(2)
    assert len(set(sample_openers(every, 3, 0))) == 3
    assert '2 openers repeat others' in caplog.text


def test_asking_for_more_than_there_are_says_how_many_there_are():
    with pytest.raises(UserError, match=r'asks for 4 .* only 3 \(2 repeated'):
        sample_openers(openers(3) + openers(2), 4, 0)


@pytest.mark.parametrize('n', [0, -1])
def test_asking_for_none_is_refused(n):
    with pytest.raises(UserError, match='at least 1'):
        sample_openers(openers(3), n, 0)
