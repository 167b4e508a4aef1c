"""
A pickle of some hundred bytes may hold tuples that would take years to hash: each has
the one before it twice. They are refused before they are hashed, by every reader.
"""

import io
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch

from parlai_ext.files.zip_file import MOST_MEMBERS
from parlai_ext.systems.safe import unpickle
from parlai_ext.systems.safe.load import guarded, read_opt, read_states
from parlai_ext.systems.safe.unpickle import BadModelFile
from tests.support.forked import said_in_child
from tests.support.malicious_pickles import in_zip, reduced, text
from tests.support.user_error import user_error

TUPLE = b')' + b'2\x86' * 60  # each has the one before it twice
REFUSED = 'it cannot be read: nested too deeply'


def frozen(n):
    """
    Return the code of a frozen set with {x} and (x,) of the one before it in it.
    """
    return b'(\x91' + b''.join(
        b'q%c0(h%c\x91q%c0(h%ch%c\x85\x91' % (i, i, i + 100, i + 100, i)
        for i in range(n)
    )


# where pickle code of a tuple is hashed
HASHED = {
    'a key': b'}' + TUPLE + b'K\x01s.',
    'keys': b'}(' + TUPLE + b'K\x01u.',
    'a key of a new dict': b'(' + TUPLE + b'K\x01d.',
    'an element of a set': b'\x8f(' + TUPLE + b'\x90.',
    'an element of a frozen set': b'(' + TUPLE + b'\x91.',
    'an element of a set that is called': reduced(
        'builtins', 'set', b'](' + TUPLE + b'e'
    )
    + b'.',
    'a key in a list of lists': reduced(
        'collections', 'OrderedDict', b'](](' + TUPLE + b'K\x01ee'
    )
    + b'.',
    'the factory of a defaultdict': reduced('collections', 'defaultdict', TUPLE) + b'.',
    'a value': b'}X\x01\x00\x00\x00a' + TUPLE + b's.',
}


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


@pytest.mark.parametrize('code', HASHED.values(), ids=list(HASHED))
def test_what_nobody_can_hash_is_refused(code, tmp_path):
    path, load = as_options(code, tmp_path)
    assert path.stat().st_size < 3_000
    assert said_in_child(load) == f'BadModelFile: model file {path}: {REFUSED}'


def test_frozen_sets_that_nobody_can_compare_are_refused(tmp_path):
    # two keys with one hash, so that the one is compared with the other
    code = b'}' + frozen(60) + b'K\x01s' + frozen(60) + b'K\x01s.'
    path, load = as_options(code, tmp_path)
    assert said_in_child(load).startswith(
        f'BadModelFile: model file {path}: it cannot be read: its keys have more than '
    )


@pytest.mark.parametrize('form', [as_zip, as_old_file, as_array])
def test_so_it_is_by_every_reader(form, tmp_path):
    path, load = form(HASHED['a key'], tmp_path)
    assert said_in_child(load) == f'BadModelFile: model file {path}: {REFUSED}'


def test_lists_in_one_another_beside_weights_are_refused(tmp_path):
    doubled = b']' + b''.join(b'q%c0](h%ch%ce' % (i, i, i) for i in range(60))
    code = b'}(' + text('model') + b'}' + text('more') + doubled + b'u.'
    path, load = as_zip(code, tmp_path)
    assert said_in_child(load) == (
        f'BadModelFile: model file {path}: it holds more than 1,000,000 values'
    )


def test_many_keys_may_not_cost_more_than_the_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(unpickle, 'MOST_PARTS', 50)
    path = tmp_path / 'model.opt'
    ten = b'(' + b'K\x01' * 10 + b't'
    for n_keys in (5, 6):
        keys = b''.join(b'h\x00K%cs' % i for i in range(n_keys))
        path.write_bytes(b'\x80\x04' + ten + b'q\x000}' + keys + b'.')
        if n_keys == 5:
            assert len(read_opt(path)) == 1
    with pytest.raises(BadModelFile, match='its keys have more than 50 parts'):
        read_opt(path)


def test_plain_nested_keys_are_read(tmp_path):
    keys = {(('a', 'b'), 'c'): 1, frozenset({('a', 'b')}): 2, (1, (2, (3,))): 3}
    path = tmp_path / 'model.opt'
    path.write_bytes(pickle.dumps(keys))
    assert read_opt(path) == keys


def test_a_number_that_takes_long_to_hash_is_refused(tmp_path):
    path = tmp_path / 'model.opt'
    path.write_bytes(pickle.dumps({'a': 1 << 100_000}))
    with user_error('a huge number'):
        read_opt(path)


@pytest.mark.parametrize('size', [('x', 10**12), ((1,), 10**12)])
def test_the_size_of_a_tensor_is_numbers(size):
    storage = torch.UntypedStorage(8)
    with pytest.raises(TypeError, match='is no numbers'):
        unpickle.allowed_global('torch._utils', '_rebuild_tensor_v2').make(
            storage, 0, size, (1, 1), False, None
        )


def test_a_zip_of_many_members_is_refused_before_they_are_read(tmp_path, monkeypatch):
    member = b'PK\x01\x02' + bytes(42)
    n = MOST_MEMBERS + 1
    end = struct.pack('<4s4H2LH', b'PK\x05\x06', 0, 0, 1, 1, n * len(member), 4, 0)
    path = tmp_path / 'model'
    path.write_bytes(b'PK\x03\x04' + n * member + end)
    monkeypatch.setattr(zipfile, 'ZipFile', None)  # nothing is left to read them with
    with pytest.raises(BadModelFile, match='more than 100,000 members'):
        read_states(path)
