"""
Which systems talk with each other under each pairing scheme; and the units of work:
every dialogue once, full batches, few reloads.
"""

import itertools
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.core import PLAYED, SCHEMES, Opener, Roster, System
from parlai_ext.store import Schedule, pairings, sample_openers, shard_size_for
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


# The units of work

sizes = st.integers(1, 40)


def plan(targets, partners, n, batchsize, sampling=lambda pairing: False):
    pairs = paired(targets, partners, 'bipartite')
    return blocks(pairs, n, batchsize, sampling, shard_size_for(n, batchsize))


def blocks(pairs, n, batchsize, sampling, size, grown_from=()):
    schedule = Schedule(None, pairs, openers(n), size, batchsize, grown_from)
    return schedule.blocks(sampling)


def some(kind, n):
    return [f'{kind}{i}' for i in range(n)]


@given(st.integers(1, 4), st.integers(1, 6), sizes, sizes, st.integers(1, 3))
def test_adding_targets_changes_no_block_of_the_others(i, k, n, batchsize, more):
    before = plan(some('t', i), some('p', k), n, batchsize)
    after = plan(some('t', i + more), some('p', k), n, batchsize)
    assert after[: len(before)] == before


@given(
    st.integers(1, 6),
    sizes,
    st.lists(sizes, max_size=3),
    sizes,
    st.sets(st.integers(0, 11)),
)
def test_every_dialogue_is_in_one_block_and_a_run_that_grows_keeps_its_blocks(
    k, n, more, batchsize, random_ones
):
    pairs = paired(some('t', 2), some('p', k), 'bipartite')
    stages = list(itertools.accumulate([n, *more]))
    size = shard_size_for(n, batchsize)

    def sampling(pairing):
        return pairs.index(pairing) in random_ones

    plans = [
        blocks(pairs, m, batchsize, sampling, size, stages[:i])
        for i, m in enumerate(stages)
    ]
    for before, after in itertools.pairwise(plans):
        assert after[: len(before)] == before
    shards = [shard for block in plans[-1] for shard in block.shards]
    played = [(s.pairing_id, place) for s in shards for place in range(s.start, s.stop)]
    ids = [pair.id for pair in pairs]
    assert sorted(played) == sorted(itertools.product(ids, range(stages[-1])))
    assert len({(s.pairing_id, s.index) for s in shards}) == len(shards)


@given(st.permutations(some('t', 5)), sizes, sizes)
def test_the_order_of_targets_changes_no_block(shuffled, n, batchsize):
    before = plan(some('t', 5), some('p', 4), n, batchsize)
    assert set(plan(shuffled, some('p', 4), n, batchsize)) == set(before)


@pytest.mark.parametrize(
    'n, sampling, packed',
    [
        # batches of 8: three pairings of 3 openers fill one, the fourth waits alone
        (3, '', [['p0', 'p1', 'p2'], ['p3']]),
        # a pairing that samples shares its block with nobody
        (1, 'p1', [['p0'], ['p1'], ['p2', 'p3']]),
    ],
)
def test_small_pairings_are_packed_whole_until_they_fill_a_batch(n, sampling, packed):
    work = plan(['t'], some('p', 4), n, 8, lambda one: one.second == sampling)
    assert [[s.pairing_id.split('-')[2] for s in b.shards] for b in work] == packed


def openers(n):
    return [Opener.from_utterances([f'hello {i}', 'hi'], 'test') for i in range(n)]


@given(st.permutations('abc'))
def test_the_draw_is_the_hash_of_seed_and_id_in_any_order_of_reading(names):
    # printf 'opener:7:a' | sha256sum  begins with 5d3b06e0; b 9cc45459; c 94403778
    every = [Opener(name, (name,), 'test') for name in names]
    sample = sample_openers(every, 3, 7)
    assert [opener.id for opener in sample] == ['a', 'c', 'b']


def test_repeated_openers_are_drawn_once_and_counted(caplog):
    caplog.set_level(logging.INFO)
    assert len(set(sample_openers(openers(3) + openers(2), 3, 0))) == 3
    assert '2 openers repeat others' in caplog.text


@pytest.mark.parametrize(
    'n, words',
    [(4, r'asks for 4 .* only 3 \(2 repeated'), (0, 'at least 1'), (-1, 'at least 1')],
)
def test_a_number_that_cannot_be_drawn_is_refused(n, words):
    with user_error(words):
        sample_openers(openers(3) + openers(2), n, 0)
