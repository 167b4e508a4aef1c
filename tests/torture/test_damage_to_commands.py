"""
The parts that disturb commands count what they should: signals, full disks and two
writers at once, damaged files, and programs that ask the network.

Commands are played by functions that do right or wrong.
"""

import re
import signal
import socket
import sys
from dataclasses import replace
from random import Random

import pytest

from parlai_ext.commands.command import COMMANDS
from parlai_ext.store import ScorerRecord, ScoreStore
from torture.disturbed import (
    ATTEMPT,
    STRACE,
    Disturbed,
    Flips,
    FullDisks,
    Kills,
    Writers,
    attempts_problem,
)
from torture.inputs import CASES, OFFLINE, WRITING
from torture.trials import Command

# these only print, or download, which is tried in tests/systems; fit_judge needs two
# models of 484 MB
UNTRIED = {
    'fit_judge',
    'check_roster',
    'cite_run',
    'doctor',
    'get_model',
    'judge_pairs',
    'show_dialogue',
    'verify_run',
}
LINE = 'error: interrupted; the same command again goes on from here\n'
FULL = 'error: No space left on device: run/dialogues/a/00000.jsonl\n'
SHARD = 'run/dialogues/a/00000.jsonl'
END = {SHARD: b'dialogues', 'run/ranking.json': b'{}'}


class Ended(Command):
    """
    A command that has ended.
    """

    ended = True

    def __init__(self, code=0, errors='', memory=0):
        self.code, self.errors, self.memory = code, errors, memory

    def wait(self, seconds=None):
        return self.code

    def send(self, number):
        pass

    output = property(lambda self: self.errors)


def trees_of(kind, tmp_path, *plays):
    """
    Return trees of one case, `rank`; each start of it is played by the next function.
    """

    def start(line, **how):
        return Ended(*trees.plays.pop(0)(trees.work))

    trees = kind(tmp_path)
    trees.start, trees.plays = start, list(plays)
    trees.names = ['rank']
    (tmp_path / 'starts' / 'score').mkdir(parents=True)
    trees.ends['rank'] = {name: data for name, data in END.items() if name != 'x'}
    trees.seconds['rank'], trees.steps['rank'] = 0.01, 3
    return trees


def writes(*names, status=0, errors='', changed=None):
    """
    Return a play that writes some files of the end.
    """

    def play(folder):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if not (folder / name).exists() or changed:
                # as the store writes: another file takes the name
                (folder / 'new').write_bytes(changed or END[name])
                (folder / 'new').rename(folder / name)
        return status, errors

    return play


def is_told(line, problem):
    """
    Assert that a line tells of a problem, or of none.
    """
    assert re.search(problem, line, re.DOTALL) if problem else line == ''


WHOLE = writes(*END)
RIGHT = writes(SHARD, status=143, errors=LINE)
KILLS = {
    'right': (RIGHT, WHOLE, ''),
    'another exit code': (writes(status=-15), WHOLE, 'exit code -15'),
    'it cannot go on': (RIGHT, writes(status=1, errors='error: x'), 'exit code 1'),
    'a file is missing': (RIGHT, writes(SHARD), 'other files in the end: run/ranking'),
    'a file more': (RIGHT, writes(*END, 'x'), 'other files in the end: x'),
}


@pytest.fixture
def only_sigterm(monkeypatch):
    monkeypatch.setattr(Kills, 'signals', (signal.SIGTERM,))
    monkeypatch.setitem(END, 'x', b'more')


@pytest.mark.parametrize('how', KILLS)
def test_a_kill_that_is_not_held_is_told(tmp_path, only_sigterm, how):
    first, second, problem = KILLS[how]
    trees = trees_of(Kills, tmp_path, first, second)
    beginning = "'rank': first ended with .*"
    is_told(trees.trial(0, Random(0)), problem and beginning + problem)


def test_a_shard_that_is_made_again_is_told(tmp_path, only_sigterm):
    def again(folder):
        (folder / 'new').write_bytes(END[SHARD])
        (folder / 'new').rename(folder / SHARD)
        return writes('run/ranking.json')(folder)

    trees = trees_of(Kills, tmp_path, RIGHT, again)
    line = trees.trial(0, Random(0))
    assert 'made again' in line and SHARD in line


def test_a_signal_to_a_command_that_has_ended_is_sent_to_another_start(
    tmp_path, only_sigterm
):
    trees = trees_of(Kills, tmp_path, *[WHOLE] * 2, RIGHT, WHOLE)
    assert trees.trial(0, Random(0)) == ''
    assert trees.plays == []


@pytest.mark.parametrize(
    'written, problem', [(END, ''), ([SHARD], 'other files in the end: more')]
)
def test_a_finished_folder_may_be_refused_by_commands_that_say_so(
    tmp_path, only_sigterm, monkeypatch, written, problem
):
    monkeypatch.setitem(CASES, 'rank', replace(CASES['rank'], once=True))
    first = writes(*written, status=143, errors=LINE)
    refusal = writes(status=1, errors='error: it is there\n')
    trees = trees_of(Kills, tmp_path, first, refusal)
    trees.ends['rank'] = {name: END[name] for name in written}
    if problem:
        trees.ends['rank'] = {**trees.ends['rank'], 'more': b''}
    is_told(trees.trial(0, Random(0)), problem)


def make_ballast(disks, name, share, with_names):
    (disks.disk / 'ballast').mkdir()


@pytest.mark.parametrize(
    'play, problem',
    [
        (writes(status=1, errors=FULL), ''),
        (writes(status=1, errors='error: damaged\n'), 'it said error: damaged'),
    ],
)
def test_a_full_disk_that_is_not_held_is_told(tmp_path, monkeypatch, play, problem):
    monkeypatch.setattr(FullDisks, 'fill', make_ballast)
    monkeypatch.setattr(FullDisks, '__init__', Disturbed.__init__)  # mounts nothing
    trees = trees_of(FullDisks, tmp_path, WHOLE, play, WHOLE)
    trees.disk = tmp_path
    is_told(trees.trial(0, Random(0)), problem)


@pytest.mark.parametrize(
    'plays, problem',
    [
        ([WHOLE, writes(status=1, errors='error: in use by 7\n'), WHOLE], ''),
        ([WHOLE, writes(status=1, errors='Traceback\nKeyError'), WHOLE], 'traceback'),
        ([writes(SHARD, changed=b'torn'), WHOLE, WHOLE], SHARD),
    ],
)
def test_writers_that_are_not_held_are_told(tmp_path, plays, problem):
    trees = trees_of(Writers, tmp_path, *plays)
    is_told(trees.trial(0, Random(2)), problem)  # which takes two writers


def test_every_command_that_writes_is_tried():
    tried = {CASES[name].run.split()[0] for name in WRITING}
    assert set(COMMANDS) - tried == UNTRIED


def test_a_case_runs_after_cases_that_are_there():
    assert {case.after for case in CASES.values()} <= {*CASES, ''}


def test_forked_commands_give_exit_codes_lines_and_signals(tmp_path):
    args = ['rank_systems', '--run-dir', 'none']
    refused = Command(args, tmp_path, tmp_path / 'one.err')
    assert refused.wait(60) == 1
    assert refused.output.startswith('error: ') and refused.output.count('\n') == 1
    for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, 143)):
        hanging = Command(['doctor'], tmp_path, tmp_path / 'two.err')
        hanging.send(number)
        assert hanging.wait(60) == code


# The part that damages files holds on the real commands and notices a planted bug.


def failures(trials, numbers):
    made = (trials.trial(number, Random(number)) for number in numbers)
    return [problem for problem in made if problem]


def test_every_damage_is_named_or_mended(tmp_path):
    assert failures(Flips(tmp_path), range(0, 10_000, 999)) == []


def test_a_reader_that_overlooks_damage_is_counted(tmp_path, monkeypatch):
    def trusting(store):
        try:
            return about(store)
        except Exception:
            return ScorerRecord(config={'name': 'length'})

    about = ScoreStore.about
    trials = Flips(tmp_path)
    monkeypatch.setattr(ScoreStore, 'about', trusting)
    trials.names = [name for name in trials.names if name.endswith('/scorer.json')]
    lines = failures(trials, range(8))
    assert lines and all('scorer.json' in line for line in lines)


# A program that asks the network is noticed; no command is left out.

ASKS = 'import socket; socket.create_connection(("127.0.0.1", {port})).close()'
SENDS = (
    'import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", '
    '("127.0.0.1", {port}))'
)
IN_A_PROGRAM = (
    'import subprocess, sys; subprocess.run([sys.executable, "-c", {code!r}])'
)
traced = pytest.mark.skipif(STRACE is None, reason='there is no strace')


def problem_of_code(code, folder):
    (folder / 'work').mkdir()
    return attempts_problem([sys.executable, '-c', code], folder / 'work')


@traced
@pytest.mark.parametrize('code', [ASKS, SENDS])
def test_an_attempt_of_a_program_that_a_program_starts_is_counted(code, tmp_path):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        code = code.format(port=listener.getsockname()[1])
        line = problem_of_code(IN_A_PROGRAM.format(code=code), tmp_path)
    assert line.startswith('1 attempts') and '127.0.0.1' in line


@traced
def test_work_without_a_network_is_held_and_failed_work_is_not(tmp_path):
    (tmp_path / 'failed').mkdir()
    local = 'import socket; a, b = socket.socketpair(); a.sendall(b"x")'
    assert problem_of_code(local, tmp_path) == ''
    line = problem_of_code('raise SystemExit(3)', tmp_path / 'failed')
    assert line.startswith('exit code 3')


def test_what_the_kernel_tells_is_read():
    lines = [
        '7 connect(3, {sa_family=AF_INET, sin_port=htons(53)}, 16) = -1 ENETUNREACH',
        '7 sendto(3, "x", 1, 0, {sa_family=AF_INET6, sin6_port=htons(1)}, 28) = 1',
        '7 connect(3, {sa_family=AF_UNIX, sun_path="/run/nscd"}, 110) = -1 ENOENT',
        '7 bind(3, {sa_family=AF_INET6, sin6_port=htons(0)}, 28) = 0',
    ]
    assert [*filter(ATTEMPT.search, lines)] == lines[:2]


def test_hardly_a_command_is_left_out():
    # which need a trained judge, the id of a dialogue, and two models of 484 MB
    left_out = {'judge_pairs', 'show_dialogue', 'fit_judge'}
    tried = {case.run.split()[0] for case in CASES.values()}
    assert set(COMMANDS) - tried <= left_out


def test_no_case_is_in_the_place_of_another():
    assert not WRITING.keys() & OFFLINE.keys()
