"""
Over which openers systems talk.
"""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlai_ext.core.nouns import Opener
from parlai_ext.worlds.schedule import sample_openers
from tests.support.user_error import user_error


def openers(n):
    return [Opener.from_utterances([f'hello {i}', 'hi'], 'test') for i in range(n)]


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
    assert len(set(sample_openers(openers(3) + openers(2), 3, 0))) == 3
    assert '2 openers repeat others' in caplog.text


@pytest.mark.parametrize(
    'n, words',
    [(4, r'asks for 4 .* only 3 \(2 repeated'), (0, 'at least 1'), (-1, 'at least 1')],
)
def test_a_number_that_cannot_be_drawn_is_refused(n, words):
    with user_error(words):
        sample_openers(openers(3) + openers(2), n, 0)
