"""
A model whose code runs, or that reaches another's files, is noticed.
"""

import os
import socket

import pytest

from torture.forked import Forked
from torture.hostile_models import MODELS, Site
from torture.models import Grounds, try_model, watched


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / 'secrets' / 'diary.txt'
    path.parent.mkdir()
    path.write_text('mine')
    return path


@pytest.fixture
def grounds(tmp_path, secret):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        address = f'127.0.0.1:{listener.getsockname()[1]}'
        site = Site({}, tmp_path / 'marker', secret, address)
        yield Grounds(tmp_path, site, watched(secret.parent), listener)


class Ended(Forked):
    """
    A command that has ended.
    """

    output = ''

    def __init__(self, code, output, memory):
        self.code, self.output, self.memory = code, output, memory


def ended(code=0, output='', memory=0):
    return Ended(code, output, memory)


def test_there_are_more_than_sixty_models():
    assert len(MODELS) == 79


def test_a_command_that_ends_well_is_held(grounds):
    assert grounds.problem(ended()) == ''
    assert grounds.problem(ended(1, 'collect: 0%\rerror: model x: refused')) == ''


@pytest.mark.parametrize(
    'wrong, words',
    [
        (ended(None), 'did not end'),
        (ended(-11), 'exit code -11'),
        (ended(0, 'Traceback (most recent call last)'), 'a traceback'),
        (ended(1, 'error: a\nerror: b'), 'not one line'),
        (ended(1, 'oh no'), 'not one line'),
        (ended(0, '', 10**11), 'it took 100'),
    ],
)
def test_a_command_that_ends_badly_is_not(wrong, words, grounds):
    assert words in grounds.problem(wrong)


@pytest.mark.parametrize(
    'deed',
    [
        lambda path: path.read_text(),
        lambda path: path.chmod(0o644),
        lambda path: os.utime(path, (0, 0)),
        lambda path: path.rename(path.with_name('x')),
        lambda path: path.with_name('new').write_text('x'),
    ],
)
def test_a_file_that_is_touched_is_noticed(deed, secret, grounds):
    assert grounds.problem(ended()) == ''
    deed(secret)
    assert 'a file elsewhere was touched' in grounds.problem(ended())
    assert grounds.problem(ended()) == ''


def test_code_that_runs_and_a_server_that_is_asked_are_noticed(grounds):
    grounds.site.marker.touch()
    assert grounds.problem(ended()) == 'its code ran'
    host, _, port = grounds.site.address.partition(':')
    socket.create_connection((host, int(port))).close()
    assert grounds.problem(ended()) == 'a server was asked'
    assert grounds.problem(ended()) == ''


@pytest.mark.slow
def test_the_same_file_runs_code_when_it_is_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path / 'configuration'))
    grounds = Grounds.make(tmp_path)
    name = 'system (zip)'
    assert try_model(grounds, tmp_path / 'held', name) == ''
    trusted = tmp_path / 'not' / 'home' / grounds.site.harmless['generator'].name
    more = ['--trust-model-code', str(trusted)]
    problem = try_model(grounds, tmp_path / 'not', name, more)
    assert problem == 'as a system: its code ran'
