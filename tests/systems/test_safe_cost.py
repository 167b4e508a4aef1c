"""
A model file may not cost more than an honest one: it is refused in one line before it
takes all memory, overruns the interpreter's stack, or waits for ever.
"""

import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from parlai_ext.core.nouns import System
from parlai_ext.systems.parlai_agents import load_system
from parlai_ext.systems.safe.load import Refused, guarded, read_opt, read_states
from tests.support.malicious_pickles import in_zip
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error


def nested(n):
    """
    Return the pickle of a dict whose key is so many tuples in one another.
    """
    return b'\x80\x04})' + b'\x85' * (n - 1) + b'K\x01s.'


def test_a_key_of_a_million_tuples_crashes_the_reader_only(tmp_path):
    path = tmp_path / 'model'
    path.write_bytes(in_zip(nested(10**6)))
    with user_error('it crashes the reader, or reading it takes more than') as e:
        read_states(path)
    assert str(path) in str(e.value)


def safetensors_with(header, size=None):
    """
    Return a file of safetensors with these bytes as header.
    """
    return struct.pack('<Q', size or len(header)) + header


@pytest.mark.parametrize(
    'data, problem',
    [
        (safetensors_with(b'{"w":' + b'[' * 10**5), 'nested too deeply'),
        (safetensors_with(b'{"w":}'), 'char 5'),
        (safetensors_with(b'{"w": "\xff"}'), "can't decode byte 0xff"),
        (safetensors_with(b'{}', size=1000), '1,000 bytes'),
    ],
)
def test_a_damaged_header_of_safetensors_is_said_to_be_that(tmp_path, data, problem):
    path = tmp_path / 'model'
    path.write_bytes(data)
    with user_error() as raised:
        read_states(path)
    line = str(raised.value)
    assert str(path) in line and 'header' in line and problem in line


@pytest.mark.parametrize('new', [True, False])
def test_one_number_is_not_a_tensor_of_terabytes(new, tmp_path):
    path = tmp_path / 'model'
    weights = {'w': torch.zeros(1).expand(10**12)}
    torch.save({'model': weights}, path, _use_new_zipfile_serialization=new)
    assert path.stat().st_size < 10_000
    with user_error('a tensor of more numbers than are stored'):
        read_states(path)


def deflated(path, n):
    """
    Write a model whose weights are zeros, packed.
    """
    torch.save({'model': {'w': torch.zeros(n)}}, path)
    with zipfile.ZipFile(path) as zipped:
        members = {name: zipped.read(name) for name in zipped.namelist()}
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as zipped:
        for name, data in members.items():
            zipped.writestr(name, data)


def test_weights_that_unpack_to_more_than_their_file_are_refused(tmp_path):
    deflated(tmp_path / 'model', 100_000)
    with pytest.raises(Refused, match=r'its \d,\d+ bytes unpack to 40\d,\d+'):
        read_states(tmp_path / 'model')


def test_arrays_may_be_compressed_but_not_a_hundredfold(tmp_path):
    path = tmp_path / 'arrays.npz'
    np.savez_compressed(path, a=np.arange(10_000), o=np.array([None], object))
    with guarded():
        assert np.load(path, allow_pickle=True)['a'].sum() == 9_999 * 5_000
    np.savez_compressed(path, a=np.zeros(10**6), o=np.array([None], object))
    with pytest.raises(Refused, match='unpack to'), guarded():
        np.load(path, allow_pickle=True)


def test_bytes_of_which_only_the_number_is_given_are_not_made(tmp_path):
    path = tmp_path / 'model'
    number = b'\x8a\x06' + (10**12).to_bytes(6, 'little')
    path.write_bytes(in_zip(b'\x80\x04cbuiltins\nbytes\n' + number + b'\x85R.'))
    with user_error('or reading it takes more than 60 seconds'):
        read_states(path)


@pytest.mark.parametrize('ending', ['dict', 'opt', 'candidates'])
def test_a_pipe_beside_a_model_is_not_waited_for(ending, tmp_path):
    path = make_generator(tmp_path)
    Path(f'{path}.{ending}').unlink(missing_ok=True)
    os.mkfifo(f'{path}.{ending}')
    with user_error(f'{ending} is a pipe or a device'):
        load_system(System('x', {'model_file': path}), no_cuda=True)


def test_a_pipe_that_options_name_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / 'lines')
    path = tmp_path / 'model.opt'
    path.write_bytes(pickle.dumps({'fixed_candidates_path': str(tmp_path / 'lines')}))
    with pytest.raises(Refused, match='its own fixed_candidates_path is .*/lines'):
        read_opt(path)


def test_lists_that_hold_each_other_twice_are_counted_as_json_writes_them(tmp_path):
    path, lists = tmp_path / 'model.opt', ['tea']
    for _ in range(15):
        lists = [lists, lists]
    path.write_bytes(pickle.dumps({'x': lists}))
    assert read_opt(path)['x'][0][1]  # 2 ** 15 words
    for _ in range(25):
        lists = [lists, lists]
    path.write_bytes(pickle.dumps({'x': lists}))
    with user_error('more than 1,000,000 values'):
        read_opt(path)
