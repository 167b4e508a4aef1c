"""
A program that asks the network is noticed; no command is left out.
"""

import socket
import sys

import pytest

from parlai_ext.commands.command import COMMANDS
from torture import disturbed
from torture.inputs import CASES, OFFLINE, WRITING

ASKS = 'import socket; socket.create_connection(("127.0.0.1", {port})).close()'
SENDS = (
    'import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", '
    '("127.0.0.1", {port}))'
)
IN_A_PROGRAM = (
    'import subprocess, sys; subprocess.run([sys.executable, "-c", {code!r}])'
)
traced = pytest.mark.skipif(disturbed.STRACE is None, reason='there is no strace')


def problem(code, folder):
    (folder / 'work').mkdir()
    return disturbed.attempts_problem([sys.executable, '-c', code], folder / 'work')


@traced
@pytest.mark.parametrize('code', [ASKS, SENDS])
def test_an_attempt_of_a_program_that_a_program_starts_is_counted(code, tmp_path):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        code = code.format(port=listener.getsockname()[1])
        line = problem(IN_A_PROGRAM.format(code=code), tmp_path)
    assert line.startswith('1 attempts') and '127.0.0.1' in line


@traced
def test_work_without_a_network_is_held_and_failed_work_is_not(tmp_path):
    (tmp_path / 'failed').mkdir()
    local = 'import socket; a, b = socket.socketpair(); a.sendall(b"x")'
    assert problem(local, tmp_path) == ''
    assert problem('raise SystemExit(3)', tmp_path / 'failed').startswith('exit code 3')


def test_what_the_kernel_tells_is_read():
    lines = [
        '7 connect(3, {sa_family=AF_INET, sin_port=htons(53)}, 16) = -1 ENETUNREACH',
        '7 sendto(3, "x", 1, 0, {sa_family=AF_INET6, sin6_port=htons(1)}, 28) = 1',
        '7 connect(3, {sa_family=AF_UNIX, sun_path="/run/nscd"}, 110) = -1 ENOENT',
        '7 bind(3, {sa_family=AF_INET6, sin6_port=htons(0)}, 28) = 0',
    ]
    assert [*filter(disturbed.ATTEMPT.search, lines)] == lines[:2]


def test_hardly_a_command_is_left_out():
    # which need a trained judge, the id of a dialogue, and two models of 484 MB
    left_out = {'judge_pairs', 'show_dialogue', 'fit_judge'}
    tried = {case.run.split()[0] for case in CASES.values()}
    assert set(COMMANDS) - tried <= left_out


def test_no_case_is_in_the_place_of_another():
    assert not WRITING.keys() & OFFLINE.keys()
