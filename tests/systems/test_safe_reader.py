"""
Files of others are read in another process, which has limits and may crash; what it
read is kept. This process opens no pickle.
"""

import io
import os
import pickle
import resource
import time

import pytest
import torch

from parlai_ext.core.nouns import System
from parlai_ext.isolation import fork_server
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.safe import reader, unpickle
from parlai_ext.systems.safe.load import (
    count_parameters,
    guarded,
    read_opt,
    read_states,
)
from parlai_ext.systems.safe.reader import read_in_child
from tests.support.forked import said_in_child
from tests.support.malicious_pickles import in_zip
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    return tmp_path / 'cache' / 'parlai_ext' / 'read'


@pytest.fixture
def path(tmp_path, cache):
    torch.save({'model': {'w': torch.arange(5.0)}}, tmp_path / 'model')
    return tmp_path / 'model'


# what is done in the other process


def sleep(file):
    time.sleep(100)


def crash(file):
    os.abort()


def facts(file):
    limits = [resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE]
    return dict(os.environ), [resource.getrlimit(what)[0] for what in limits]


@pytest.mark.parametrize('work', [sleep, crash])
def test_a_reader_that_hangs_or_crashes_is_one_line(work, path, cache, monkeypatch):
    monkeypatch.setattr(reader, 'SECONDS', 1)
    with user_error('it crashes the reader, or reading it takes more than 1 s') as e:
        read_in_child(work, path)
    assert str(path) in str(e.value)
    assert not list(cache.iterdir())


def test_a_pickle_that_takes_all_memory_is_one_line(path, monkeypatch):
    monkeypatch.setattr(reader, 'MEMORY', 2**20)
    # two million lists of 56 bytes and more
    path.write_bytes(in_zip(b'\x80\x04](' + b']' * 2_000_000 + b'e.'))
    with user_error('or reading it takes more than'):
        read_states(path)


def test_the_reader_has_no_keys_and_has_limits(path, monkeypatch):
    monkeypatch.setenv('EVALKEY', 'abcdefgh')
    fork_server._server.cache_clear()
    environment, (seconds, size, core) = read_in_child(facts, path)
    assert 'PATH' in environment and 'EVALKEY' not in environment
    assert (seconds, core) == (reader.SECONDS, 0)
    assert size == reader.MEMORY + reader.COPIES * path.stat().st_size


def test_no_pickle_is_opened_in_this_process(tmp_path, cache, monkeypatch):
    model = make_generator(tmp_path)
    optfile = tmp_path / 'old.opt'
    optfile.write_bytes(pickle.dumps({'model': 'seq2seq'}))
    monkeypatch.setattr(unpickle.SafeUnpickler, '__init__', None)
    monkeypatch.setattr(unpickle.SafeUnpickler, 'load', None)
    assert count_parameters(model) > 0
    assert load_system(System('x', {'model_file': model}), no_cuda=True)
    assert read_opt(optfile) == {'model': 'seq2seq'}


def test_the_second_time_no_process_is_asked(path, cache, monkeypatch):
    first = read_states(path)
    monkeypatch.setattr(reader, '_wait_for', None)
    again = read_states(path)
    assert torch.equal(first['model']['w'], again['model']['w'])


def test_a_file_that_was_changed_is_read_anew(path):
    assert read_states(path)['model']['w'][0] == 0
    torch.save({'model': {'w': torch.ones(5)}}, path)
    assert read_states(path)['model']['w'][0] == 1


def test_weights_that_are_changed_in_memory_are_not_changed_in_the_cache(path):
    read_states(path)['model']['w'][0] = 9
    assert read_states(path)['model']['w'][0] == 0


def test_what_is_kept_and_damaged_is_read_anew(path, cache):
    read_states(path)
    for file in cache.rglob('*.*'):
        file.write_bytes(file.read_bytes()[:-9])
    assert torch.equal(read_states(path)['model']['w'], torch.arange(5.0))


def test_of_a_large_file_nothing_is_kept(path, cache, monkeypatch):
    monkeypatch.setattr(reader, 'LARGEST_KEPT', 100)
    assert torch.equal(read_states(path)['model']['w'], torch.arange(5.0))
    assert not list(cache.iterdir())


def test_what_was_not_used_for_long_is_removed(path, cache, monkeypatch):
    read_states(path)
    [old] = cache.iterdir()
    os.utime(old, (0, 0))
    size = sum(file.stat().st_size for file in old.iterdir())
    monkeypatch.setattr(reader, 'MOST_KEPT', size + 100)
    torch.save({'model': {'w': torch.ones(5)}}, path)
    read_states(path)
    [new] = cache.iterdir()
    assert new != old


def test_a_cache_that_cannot_be_made_is_done_without(path, cache):
    cache.parent.parent.write_text('a file')
    assert torch.equal(read_states(path)['model']['w'], torch.arange(5.0))


def test_a_server_that_was_killed_is_replaced(path):
    read_in_child(facts, path)
    fork_server._server()[1].kill()
    fork_server._server()[1].wait()
    assert torch.equal(read_states(path)['model']['w'], torch.arange(5.0))


def test_forks_share_the_server(path):
    assert said_in_child(lambda: read_states(path)['model']['w'].sum()) == 'tensor(10.)'


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
