"""
A model whose code runs, or that reaches another's files, is noticed.
"""

import os
import socket
from random import Random

import pytest

from tests.torture.test_damage_to_commands import Ended
from torture.models import Models


@pytest.fixture
def models(tmp_path):
    (tmp_path / 'models').mkdir()
    with Models(tmp_path / 'models') as trials:
        yield trials


def test_there_are_79_models():
    assert Models.count == 79


def test_a_command_that_ends_well_is_held(models):
    assert models.problem(Ended()) == ''
    assert models.problem(Ended(1, 'collect: 0%\rerror: model x: refused')) == ''


@pytest.mark.parametrize(
    'wrong, words',
    [
        (Ended(None), 'did not end'),
        (Ended(-11), 'exit code -11'),
        (Ended(0, 'Traceback (most recent call last)'), 'a traceback'),
        (Ended(1, 'error: a\nerror: b'), '2 error lines'),
        (Ended(1, 'oh no'), '0 error lines'),
        (Ended(0, '', 10**11), 'it took 100'),
    ],
)
def test_a_command_that_ends_badly_is_not(wrong, words, models):
    assert words in models.problem(wrong)


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
def test_a_file_that_is_touched_is_noticed(deed, models):
    assert models.problem(Ended()) == ''
    deed(models.secret)
    assert 'a file elsewhere was touched' in models.problem(Ended())
    assert models.problem(Ended()) == ''


def test_code_that_runs_and_a_server_that_is_asked_are_noticed(models):
    models.marker.touch()
    assert models.problem(Ended()) == 'its code ran'
    socket.create_connection(models.listener.getsockname()).close()
    assert models.problem(Ended()) == 'a server was asked'
    assert models.problem(Ended()) == ''


@pytest.mark.slow
def test_the_same_file_runs_code_when_it_is_trusted(tmp_path, models, monkeypatch):
    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path / 'configuration'))
    name = 'system (zip)'
    assert models.try_case(name, Random()) == ''
    problem = models.try_case(name, Random(), '--trust-model-code MODEL')
    assert problem == 'as a system: its code ran'
