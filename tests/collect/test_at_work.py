"""
Whose code ran when the process of a run ended: the next start says it, and with
`--skip-missing` does without a system that ended two runs in a row.
"""

import logging
import os
import signal
from functools import partial

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.collect import at_work, not_run
from parlai_ext.collect import collect as stage
from parlai_ext.core.nouns import Opener, Roster, System
from tests.support.plans import collected as collected_run
from tests.support.plans import open_run, says
from tests.support.scattered_engine import ScatteredEngine
from tests.support.tiny_models import sentences

collected = partial(collected_run, skip_missing=False)
OPENERS = [Opener.from_utterances(sentences(2, k), 'test') for k in range(2)]


class Ends(Agent):
    """
    Ends the process as `Ends.way` does, if it has one; else says one thing.
    """

    way = staticmethod(lambda: None)

    def act(self):
        type(self).way()
        return Message(id='ends', text='still here', episode_done=False)


class EndsWhenLoaded(Ends):
    def __init__(self, opt, shared=None):
        super().__init__(opt, shared)
        type(self).way()


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def by_itself():
    os._exit(3)


def run_of(root, targets, partners=('cem',)):
    roster = Roster(tuple(targets), tuple(says(name) for name in partners))
    return open_run(root, roster, OPENERS, 2, batchsize=2, num_turns=4)


def ending(cls=Ends):
    return System('ends', {'model': f'{__name__}:{cls.__name__}'})


def cut_off(run, way, skip_missing=False, cls=Ends):
    """
    Collect in another process, which ends that way, if the system's code is run.

    :returns: the exit code, negative for a signal.
    """
    pid = os.fork()
    if pid == 0:
        cls.way = staticmethod(way)
        collected(run, skip_missing=skip_missing)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    'cls, doing', [(Ends, 'talking'), (EndsWhenLoaded, 'being loaded')]
)
@pytest.mark.parametrize('way, code', [(by_itself, 3), (killed, -9)])
def test_the_next_start_says_who_was_at_work(tmp_path, caplog, cls, doing, way, code):
    run = run_of(tmp_path, [says('ann'), ending(cls)])
    assert cut_off(run, way, cls=cls) == code
    with caplog.at_level(logging.WARNING):
        report = collected(run)
    [line] = caplog.messages
    assert "'ends'" in line and doing in line and '--skip-missing' in line
    assert report.problems == () and not_run.missing_by_pair(run) == {}
    assert not (tmp_path / at_work.NAME).exists()
    caplog.clear()
    collected(run)
    assert caplog.messages == []


def test_after_two_ends_in_a_row_it_can_be_left_out(tmp_path, caplog):
    run = run_of(tmp_path, [says('ann'), ending(), says('bob')])
    assert cut_off(run, by_itself, skip_missing=True) == 3
    assert cut_off(run, by_itself, skip_missing=True) == 3  # one end is no habit
    assert cut_off(run, by_itself) == 3  # nobody asked to leave it out
    assert cut_off(run, by_itself, skip_missing=True) == 0
    assert not_run.missing_by_pair(run) == {('ends', 'cem'): 2}
    [problem] = not_run.read_problems(run).values()
    assert "'ends'" in problem and '3 runs' in problem
    # it stays left out until somebody lets it try again
    assert cut_off(run, by_itself, skip_missing=True) == 0
    report = collected(run)
    assert (report.n_played, report.problems) == (2, ())
    assert not (tmp_path / at_work.NAME).exists()


def test_workers_elsewhere_leave_it_out_too(tmp_path, monkeypatch):
    monkeypatch.setattr(stage, 'refuse_difference', lambda *what: None)
    run = run_of(tmp_path, [says('ann'), ending()])
    (tmp_path / at_work.NAME).write_bytes(b'{"ends": [2, 0]}\n\n')
    report = collected(run, skip_missing=True, engine=ScatteredEngine(tmp_path))
    [problem] = report.problems
    assert "'ends'" in problem
    assert not_run.missing_by_pair(run) == {('ends', 'cem'): 2}


def test_a_system_that_has_got_further_meanwhile_is_not_counted_on(tmp_path):
    run = run_of(tmp_path, [ending()], ['cem', 'dan'])
    assert cut_off(run, killed) == -9
    shard = run.root / 'dialogues' / run.pairings[0].id / '00000.jsonl'
    note = (tmp_path / at_work.NAME).read_bytes()
    collected(run)
    assert shard.exists()
    for pairing in run.pairings[1:]:  # as if only the first pair had been played
        (run.root / 'dialogues' / pairing.id / '00000.jsonl').unlink()
    (tmp_path / at_work.NAME).write_bytes(b'{"ends": [1, 0]}\n' + note.split(b'\n')[1])
    assert cut_off(run, killed, skip_missing=True) == -9
    assert b'{"ends": [1, 1]}' in (tmp_path / at_work.NAME).read_bytes()


def test_who_is_killed_while_no_system_works_accuses_nobody(
    tmp_path, caplog, monkeypatch
):
    run = run_of(tmp_path, [says('ann')])
    monkeypatch.setattr(type(run), 'write_dialogues', lambda *args: killed())
    assert cut_off(run, lambda: None) == -9
    monkeypatch.undo()
    collected(run)
    assert caplog.messages == []


@pytest.mark.parametrize(
    'data',
    [
        b'',
        b'{}',
        b'[]\n\n',
        b'{"ann": 7}\n\n',
        b'{"ann": ["x", 0]}\n\n',
        b'{}\n{"system": "\\u001b[31m", "doing": "talking"}\n',
        b'{}\n{"system": ["ann"]}\n',
        b'{}\n' + b'[' * 10**5 + b'\n',
        b'\xff\n\xff\n',
    ],
)
def test_a_damaged_note_says_nothing(tmp_path, caplog, data):
    run = run_of(tmp_path, [says('ann')])
    (tmp_path / at_work.NAME).write_bytes(data)
    assert collected(run, skip_missing=True).n_played == 2
    assert caplog.messages == []
