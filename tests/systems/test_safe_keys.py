"""
A pickle of some hundred bytes may hold tuples that would take years to hash: each has
the one before it twice. The process that reads it is ended.
"""

import io
import pickle
import struct

import numpy as np
import pytest
import torch

from parlai_ext.files.zip_file import MOST_MEMBERS
from parlai_ext.systems.safe import reader
from parlai_ext.systems.safe.load import guarded, read_opt, read_states
from tests.support.malicious_pickles import in_zip, text
from tests.support.user_error import user_error

TUPLE = b')' + b'2\x86' * 60  # each has the one before it twice


A_KEY = b'}' + TUPLE + b'K\x01s.'


def as_options(code, folder):
    path = folder / 'model.opt'
    path.write_bytes(b'\x80\x04' + code)
    return path, lambda: read_opt(path)


def as_zip(code, folder):
    path = folder / 'model'
    path.write_bytes(in_zip(b'\x80\x04' + code))
    return path, lambda: read_states(path)


def as_old_file(code, folder):
    path, file = folder / 'model', io.BytesIO()
    torch.save({'a': 1}, file, _use_new_zipfile_serialization=False)
    before = file.getvalue()
    at = before.index(pickle.dumps({'a': 1}, 2))
    path.write_bytes(before[:at] + b'\x80\x04' + code)
    return path, lambda: read_states(path)


def as_array(code, folder):
    path, file = folder / 'model.npy', io.BytesIO()
    np.lib.format.write_array_header_1_0(
        file, {'descr': '|O', 'fortran_order': False, 'shape': (1,)}
    )
    path.write_bytes(file.getvalue() + b'\x80\x04' + code)

    def load():
        with guarded():
            return np.load(path, allow_pickle=True)

    return path, load


@pytest.mark.parametrize('form', [as_options, as_zip, as_old_file, as_array])
def test_what_nobody_can_hash_ends_its_reader(form, tmp_path, monkeypatch):
    monkeypatch.setattr(reader, 'SECONDS', 1)
    path, load = form(A_KEY, tmp_path)
    assert path.stat().st_size < 3_000
    with user_error('takes more than 1 seconds') as e:
        load()
    assert f'model file {path}: ' in str(e.value)


def test_lists_in_one_another_beside_weights_are_refused(tmp_path):
    doubled = b']' + b''.join(b'q%c0](h%ch%ce' % (i, i, i) for i in range(60))
    code = b'}(' + text('model') + b'}' + text('more') + doubled + b'u.'
    path, load = as_zip(code, tmp_path)
    with user_error('it holds more than 1,000,000 values'):
        load()


def test_plain_nested_keys_are_read(tmp_path):
    keys = {(('a', 'b'), 'c'): 1, frozenset({('a', 'b')}): 2, (1, (2, (3,))): 3}
    path = tmp_path / 'model.opt'
    path.write_bytes(pickle.dumps(keys))
    assert read_opt(path) == keys


def test_a_number_that_takes_long_to_hash_is_refused(tmp_path):
    path = tmp_path / 'model.opt'
    path.write_bytes(pickle.dumps({'a': 1 << 100_000}))
    with user_error('cannot be read: ValueError: Exceeds the limit'):
        read_opt(path)


def test_a_zip_of_many_members_is_refused(tmp_path):
    member = b'PK\x01\x02' + bytes(42)
    n = MOST_MEMBERS + 1
    end = struct.pack('<4s4H2LH', b'PK\x05\x06', 0, 0, 1, 1, n * len(member), 4, 0)
    path = tmp_path / 'model'
    path.write_bytes(b'PK\x03\x04' + n * member + end)
    with user_error('more than 100,000 members'):
        read_states(path)
