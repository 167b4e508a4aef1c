"""
Forked work that hangs, crashes or takes memory is ended and told.
"""

import os
import signal
import sys
import time

import pytest

from tests.support.forked import CRASHED, Forked
from tests.support.waiting import comes_true, is_running


@pytest.mark.parametrize(
    'work, code, words',
    [
        (lambda: print('done'), 0, 'done\n'),
        (lambda: sys.exit(3), 3, ''),
        (lambda: {}['three'], CRASHED, 'KeyError'),
        (lambda: signal.raise_signal(signal.SIGKILL), -signal.SIGKILL, ''),
        (lambda: bytes(2**34), CRASHED, 'MemoryError'),
        (lambda: time.sleep(60), None, ''),
    ],
)
def test_the_end_of_forked_work_is_told(work, code, words, tmp_path):
    ended = Forked(work, tmp_path / 'log')
    ended.wait_or_kill(1)
    assert ended.code == code and words in ended.output


def test_what_it_started_ends_with_it(tmp_path):
    def work():
        pid = os.fork()
        if not pid:
            time.sleep(60)
        print(pid)

    ended = Forked(work, tmp_path / 'log')
    ended.wait_or_kill(10)
    assert comes_true(lambda: not is_running(ended.output.strip()), 10)
