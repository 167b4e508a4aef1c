"""
Files of others are read in another process, which has limits and may crash. This
process opens no pickle.
"""

import functools
import io
import os
import pickle

import pytest
import torch

from parlai_ext.core import System
from parlai_ext.engines import Machine
from parlai_ext.isolation import fork_server
from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems.parlai_agents import load_on
from parlai_ext.systems.safe import read, unpickle
from parlai_ext.systems.safe.load import (
    convert_states,
    count_parameters,
    guarded,
    read_opt,
)
from parlai_ext.systems.safe.read import read_in_child
from tests.support.forked import said_in_child
from tests.support.malicious_pickles import in_zip
from tests.support.reader_work import crash, facts, sleep
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error


@pytest.fixture
def path(tmp_path):
    torch.save({'model': {'w': torch.arange(5.0)}}, tmp_path / 'model')
    return tmp_path / 'model'


@pytest.mark.parametrize('work, seconds', [(sleep, 0), (crash, 60)])
def test_a_reader_that_hangs_or_crashes_is_one_line(work, seconds, path, monkeypatch):
    monkeypatch.setattr(read, 'SECONDS', seconds)
    line = f'it crashes the reader, or reading it takes more than {seconds} s'
    with user_error(f'{path}.*{line}'):
        read_in_child(work, path)


def test_a_pickle_that_takes_all_memory_is_one_line(path, monkeypatch):
    monkeypatch.setattr(read, 'MEMORY', 2**20)
    # two million lists of 56 bytes and more
    path.write_bytes(in_zip(b'\x80\x04](' + b']' * 2_000_000 + b'e.'))
    with user_error('or reading it takes more than|cannot be read: .* memory'):
        convert_states(path, path.with_name('new'))


def test_the_reader_has_no_keys_and_has_limits(path):
    environment, (seconds, size, core) = read_in_child(facts, path)
    # of what pytest has set before any reader was started
    assert 'PYTEST_VERSION' in os.environ and 'PYTEST_VERSION' not in environment
    assert 'PATH' in environment
    assert (seconds, core) == (read.SECONDS, 0)
    assert size == read.MEMORY + read.COPIES * path.stat().st_size


def test_no_pickle_is_opened_in_this_process(tmp_path, monkeypatch):
    model = make_generator(tmp_path)
    optfile = tmp_path / 'old.opt'
    optfile.write_bytes(pickle.dumps({'model': 'seq2seq'}))
    monkeypatch.setattr(unpickle.SafeUnpickler, '__init__', None)
    monkeypatch.setattr(unpickle.SafeUnpickler, 'load', None)
    assert count_parameters(model) > 0
    assert load_on(Machine(no_cuda=True), System('x', {'model_file': model}))
    assert ModelHandle(Machine(no_cuda=True)).likelihood(model)
    assert convert_states(model, tmp_path / 'new')
    assert read_opt(optfile) == {'model': 'seq2seq'}


def test_a_server_that_was_killed_is_replaced(monkeypatch):
    # one of its own, which imports no torch
    started = functools.cache(fork_server._server.__wrapped__)
    monkeypatch.setattr(fork_server, '_server', started)
    task = fork_server.ForkedTask('fractions:Fraction', {}, 2**30)
    for _ in range(2):
        with user_error('ended with exit code 1'):  # a socket is no fraction
            fork_server.ForkedWorker(task).ask(1, None)
        started()[1].kill()
        started()[1].wait()


def test_forks_share_the_server(path):
    assert said_in_child(lambda: read_in_child(facts, path)[1][2]) == '0'


def test_tensors_in_memory_are_read(path):
    # torch reads its own tensors so, when they come from another process
    tensor = torch.arange(3)
    with guarded():
        assert torch.equal(pickle.loads(pickle.dumps(tensor)), tensor)
        with open(path, 'rb') as file:
            loaded = torch.load(io.BytesIO(file.read()), weights_only=True)
    assert torch.equal(loaded['model']['w'], torch.arange(5.0))


def test_weights_go_where_the_caller_says(path):
    torch.save({'w': torch.ones(2)}, path, _use_new_zipfile_serialization=False)
    on_gpu = path.read_bytes().replace(b'\x03\0\0\0cpu', b'\x06\0\0\0cuda:0')
    path.write_bytes(on_gpu)
    with guarded():
        for place in ('cpu', lambda storage, place: storage, None):
            assert torch.load(path, place)['w'].sum() == 2
        assert torch.load(path, 'meta')['w'].device.type == 'meta'
