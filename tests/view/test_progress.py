"""
What a progress bar leaves in the log file of a job.
"""

import time
from itertools import accumulate
from unittest.mock import Mock

from parlai_ext.view import progress
from parlai_ext.view.progress import PartProgress, bar_of
from tests.support.waiting import comes_true


def test_a_log_file_gets_no_line_for_each_context(capsys):
    with bar_of('score', 500, True) as bar:
        parts = PartProgress(bar, 'contexts')
        for _ in range(500):
            parts.begin(1)
            parts.tell(1, 1)
            parts.end()
    printed = capsys.readouterr().err
    first, last, after = printed.split('\n')  # at the beginning, at the end
    assert '0/500' in first and '500/500' in last and '500 contexts' in last
    assert not after and not {'\r', '\x1b'} & set(printed)


def test_a_bar_moves_within_a_part_and_never_back():
    bar = Mock()
    parts = PartProgress(bar, 'inputs read')
    for _ in range(2):
        parts.begin(10)
        for _ in range(2):  # two models read 40 inputs each
            for _ in range(4):
                parts.tell(10, 40)
        parts.end()
    # in the first part the second call is not foreseen, in the second part it is
    places = [*accumulate((call.args[0] for call in bar.update.mock_calls), initial=0)]
    assert places[:5] == [0, 2, 5, 7, 10]
    assert places == sorted(places)
    assert places[10:] == [11, 12, 13, 15, 16, 17, 18, 20, 20]
    assert bar.set_postfix_str.call_args.args == ('160 inputs read',)


def test_a_bar_is_written_anew_while_nothing_is_finished(capsys, monkeypatch):
    monkeypatch.setattr(progress, 'SHOWN_SECONDS', 0.1)
    printed = []

    def lines():
        printed.append(capsys.readouterr().err)
        return ''.join(printed).count('0/5')

    began = time.monotonic()
    with bar_of('score', 5):
        assert comes_true(lambda: lines() >= 4)
    # at the beginning, at most each 0.1 seconds, and at the end
    assert lines() <= 2 + (time.monotonic() - began) / 0.1


def test_a_run_that_is_read_at_once_shows_no_bar(capsys):
    with bar_of('rank', 5, delay=3) as bar:
        bar.update(5)
    assert capsys.readouterr().err == ''
