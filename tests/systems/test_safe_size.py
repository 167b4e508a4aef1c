"""
A model file, or what its options claim, may not cost more than an honest one: it is
refused in one line before it takes all memory, overruns the interpreter's stack, or
waits for ever.
"""

import os
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from parlai_ext.files.zip_file import MOST_MEMBERS
from parlai_ext.systems.safe import load, read
from parlai_ext.systems.safe.load import (
    Refused,
    bounded_cost,
    convert_states,
    guarded,
    read_opt,
    read_states,
)
from parlai_ext.systems.safe.unpickle import BadModelFile
from tests.support import family_hf
from tests.support.malicious_pickles import in_zip, text
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator, with_options
from tests.support.user_error import user_error
from tests.support.written import changed_json, safetensors_of, zip_of


@pytest.fixture
def path(tmp_path):
    """
    A model file without content.
    """
    (tmp_path / 'model').touch()
    return tmp_path / 'model'


@pytest.mark.parametrize(
    'data, problem',
    [
        (safetensors_of(b'{"w":' + b'[' * 10**5), 'recursion limit'),
        (safetensors_of(b'{"w":}'), 'column 6'),
        (safetensors_of(b'{"w": "\xff"}'), 'invalid UTF-8'),
        (safetensors_of(b'{}', size=1000), 'header length'),
    ],
)
def test_a_damaged_header_of_safetensors_is_said_to_be_that(path, data, problem):
    path.write_bytes(data)
    with user_error(f'{path}.*header.*{problem}'):
        read_states(path)


@pytest.mark.parametrize('new', [True, False])
def test_one_number_is_not_a_tensor_of_terabytes(new, path):
    weights = {'w': torch.zeros(1).expand(10**12)}
    torch.save({'model': weights}, path, _use_new_zipfile_serialization=new)
    assert path.stat().st_size < 10_000
    with user_error('a tensor of more numbers than are stored'):
        read_states(path)


def test_weights_that_unpack_to_more_than_their_file_are_refused(path):
    torch.save({'model': {'w': torch.zeros(100_000)}}, path)
    with zipfile.ZipFile(path) as zipped:
        members = [(name, zipped.read(name)) for name in zipped.namelist()]
    path.write_bytes(zip_of(members, zipfile.ZIP_DEFLATED))
    with pytest.raises(Refused, match=r'its \d,\d+ bytes unpack to 40\d,\d+'):
        read_states(path)


def test_arrays_may_be_compressed_but_not_a_hundredfold(tmp_path):
    path = tmp_path / 'arrays.npz'
    np.savez_compressed(path, a=np.arange(10_000), o=np.array([None], object))
    with guarded():
        assert np.load(path, allow_pickle=True)['a'].sum() == 9_999 * 5_000
    np.savez_compressed(path, a=np.zeros(10**6), o=np.array([None], object))
    with pytest.raises(Refused, match='unpack to'), guarded():
        np.load(path, allow_pickle=True)


@pytest.mark.parametrize('ending', ['dict', 'opt', 'candidates'])
def test_a_pipe_beside_a_model_is_not_waited_for(ending, tmp_path):
    path = make_generator(tmp_path)
    Path(f'{path}.{ending}').unlink(missing_ok=True)
    os.mkfifo(f'{path}.{ending}')
    with user_error(f'{ending} is a pipe or a device'):
        loaded('x', model_file=path, no_cuda=True)


def test_a_pipe_that_options_name_is_not_waited_for(path):
    lines = path.with_name('lines')
    os.mkfifo(lines)
    path.write_bytes(pickle.dumps({'fixed_candidates_path': str(lines)}))
    with pytest.raises(Refused, match='its own fixed_candidates_path is .*/lines'):
        read_opt(path)


def test_lists_that_hold_each_other_twice_are_counted_as_json_writes_them(path):
    lists = ['tea']
    for _ in range(10):
        lists = [lists, lists]
    path.write_bytes(pickle.dumps({'x': lists}))
    assert read_opt(path)['x'][0][1]  # 2 ** 10 words
    for _ in range(30):
        lists = [lists, lists]
    path.write_bytes(pickle.dumps({'x': lists}))
    with user_error('more than 1,000,000 values'):
        read_opt(path)


TUPLE = b')' + b'2\x86' * 60  # each has the one before it twice


def test_what_nobody_can_hash_ends_its_reader(path, monkeypatch):
    monkeypatch.setattr(read, 'SECONDS', 1)
    path.write_bytes(b'\x80\x04}' + TUPLE + b'K\x01s.')
    assert path.stat().st_size < 3_000
    with user_error(f'model_file: {path}: .*takes more than 1 seconds'):
        read_opt(path)


def test_lists_in_one_another_beside_weights_are_refused(path):
    doubled = b']' + b''.join(b'q%c0](h%ch%ce' % (i, i, i) for i in range(60))
    code = b'}(' + text('model') + b'}' + text('more') + doubled + b'u.'
    path.write_bytes(in_zip(b'\x80\x04' + code))
    with user_error('it holds more than 1,000,000 values'):
        convert_states(path, path.with_name('new'))


def test_a_zip_of_many_members_is_refused(path):
    member = b'PK\x01\x02' + bytes(42)
    n = MOST_MEMBERS + 1
    end = struct.pack('<4s4H2LH', b'PK\x05\x06', 0, 0, 1, 1, n * len(member), 4, 0)
    path.write_bytes(b'PK\x03\x04' + n * member + end)
    with user_error('more than 100,000 members'):
        read_states(path)


HUGE = 10**9


@pytest.fixture(autouse=True)
def no_more_parts(monkeypatch):
    monkeypatch.setattr(load, 'MORE_WEIGHTS', 1_000_000)
    monkeypatch.setattr(load, 'MOST_MODULES', 3_000)


@pytest.mark.parametrize('option, value', [('n_layers', HUGE), ('n_positions', 10**6)])
def test_options_that_claim_a_larger_model_are_refused(option, value, tmp_path):
    path = make_generator(tmp_path)
    with_options(path, **{option: value})
    with user_error(f"'x'.*{path}.*its options ask for more than .* bytes"):
        loaded('x', model_file=path, no_cuda=True)


@pytest.mark.parametrize(
    'option',
    ['num_hidden_layers', 'vocab_size'],
)
def test_so_is_a_config_of_hugging_faces(option, tmp_path):
    opt = family_hf.chat(tmp_path)
    [file] = tmp_path.rglob('config.json')
    assert f'"{option}": ' in file.read_text()
    changed_json(file, **{option: HUGE})
    with user_error('ask for more than .* its files have'):
        loaded(**opt)


@pytest.mark.parametrize('option', ['beam_size', 'label_truncate', 'beam_min_length'])
def test_what_a_reply_costs_is_for_the_roster_to_say(option, tmp_path):
    path = make_generator(tmp_path)
    with_options(path, **{option: HUGE})
    with pytest.raises(Refused, match=f'its own {option} is {HUGE}'):
        read_opt(f'{path}.opt')
    assert read_opt(f'{path}.opt', roster_opt={option: HUGE})[option] == HUGE


def test_a_model_of_as_many_weights_as_its_file_holds_is_built(path):
    n = 100_000
    torch.save({'w': torch.zeros(n, dtype=torch.int8)}, path)
    with bounded_cost(path):
        torch.nn.Linear(4 * n, 1)  # 2 bits each
    load.MORE_WEIGHTS = 0  # the fixture puts it back
    with pytest.raises(BadModelFile), bounded_cost(path):
        torch.nn.Linear(5 * n, 1)
    torch.nn.Linear(5 * n, 1)  # what comes after is not counted


def test_a_weight_in_the_place_of_another_is_counted_once(path):
    with bounded_cost(path):
        layer = torch.nn.Linear(700_000, 1, bias=False)
        for _ in range(3):
            layer.weight = torch.nn.Parameter(layer.weight.data)
    # four layers, each in a place of its own, are too many
    with pytest.raises(BadModelFile), bounded_cost(path):
        [torch.nn.Linear(700_000, 1, bias=False) for _ in range(4)]
