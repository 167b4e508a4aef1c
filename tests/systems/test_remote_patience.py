"""
When to ask again, and how long to wait before.
"""

import random
import time
from email.utils import formatdate

import pytest

from parlai_ext.systems.remote.endpoint import (
    Pace,
    delay,
    is_transient,
    seconds_to_wait,
)


@pytest.mark.parametrize('attempt, longest', [(1, 1), (2, 2), (3, 4), (6, 32), (9, 60)])
def test_waits_double_up_to_a_minute(attempt, longest):
    found = [delay(attempt) for _ in range(200)]
    assert longest / 2 <= min(found) <= max(found) <= longest


def test_waits_differ_so_that_many_do_not_come_back_at_once():
    assert len({delay(5) for _ in range(20)}) > 10


def test_waiting_draws_no_number_of_those_that_are_seeded():
    random.seed(1)
    state = random.getstate()
    delay(3)
    assert random.getstate() == state


def test_what_the_endpoint_asks_for_is_the_least():
    assert delay(1, retry_after=30.0) == 30.0
    assert delay(9, retry_after=3.0) >= 30.0


def test_retry_after_as_a_date():
    later = formatdate(time.time() + 3600, usegmt=True)
    assert 3000 < seconds_to_wait(later) <= 3600


@pytest.mark.parametrize(
    'header, seconds',
    [
        ('7', 7.0),
        (None, None),
        ('soon', None),
        ('-3', 0.0),
        ('Thu, 01 Jan 1970 00:00:00 GMT', 0.0),
    ],
)
def test_retry_after(header, seconds):
    assert seconds_to_wait(header) == seconds


def test_some_statuses_mean_later_and_others_no():
    assert all(map(is_transient, (408, 409, 429, 500, 502, 503, 529)))
    assert not any(map(is_transient, (400, 401, 403, 404, 413, 422)))


def test_thirty_a_minute_is_one_every_two_seconds():
    pace = Pace(30, clock=lambda: 100.0)
    assert [pace.reserve(1) for _ in range(4)] == [0, 2, 4, 6]


def test_after_a_pause_there_is_nothing_to_wait_for():
    clock = iter([0.0, 50.0])
    pace = Pace(30, clock=lambda: next(clock))
    assert [pace.reserve(1), pace.reserve(1)] == [0, 0]


def test_tokens_take_their_share_of_a_minute():
    # 100 of 600 tokens a minute are ten seconds
    pace = Pace(600, clock=lambda: 0.0)
    assert [pace.reserve(100), pace.reserve(1)] == [0, 10]
