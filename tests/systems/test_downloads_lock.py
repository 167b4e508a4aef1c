"""
The lock file says what an address gave first, and is never half a file.
"""

import json

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.systems.fetch.http_file import Entry, LockFile
from tests.support.mutations import mutations
from tests.support.user_error import user_error

A, B = Entry('a' * 64, 1), Entry('b' * 64, 2)


def test_what_is_recorded_is_read(tmp_path):
    lock = LockFile(tmp_path / 'new' / 'lock.json')
    lock.record({})
    assert lock.entries() == {} and list(tmp_path.iterdir()) == []
    lock.record({'http://x': A})
    lock.record({'http://y': B})
    assert lock.entries() == {'http://x': A, 'http://y': B}


def test_the_bytes_do_not_depend_on_the_order(tmp_path):
    one, two = LockFile(tmp_path / '1.json'), LockFile(tmp_path / '2.json')
    one.record({'http://x': A, 'http://y': B})
    two.record({'http://y': B})
    two.record({'http://x': A})
    assert one.path.read_bytes() == two.path.read_bytes()


def test_what_is_recorded_stays(tmp_path):
    lock = LockFile(tmp_path / 'lock.json')
    lock.record({'http://x': A})
    with user_error(f'{B.sha256}, but .* has {A.sha256}'):
        lock.record({'http://x': B, 'http://y': B})
    assert lock.entries() == {'http://x': A}


ENTRY = {'sha256': 'a' * 64, 'size': 1}


@pytest.mark.parametrize(
    'content',
    [
        '',
        '[]',
        '{"version": 1}',
        json.dumps({'version': 1, 'files': []}),
        json.dumps({'version': 1, 'files': {'u': {**ENTRY, 'sha256': 'a'}}}),
        json.dumps({'version': 1, 'files': {'u': {**ENTRY, 'size': '1'}}}),
        json.dumps({'version': 1, 'files': {'u': {'size': 1}}}),
        json.dumps({'version': 1, 'files': {'u': None}}),
        json.dumps({'version': 2, 'files': {}}),
    ],
)
def test_a_damaged_file_is_named_and_left_as_it_is(tmp_path, content):
    path = tmp_path / 'lock.json'
    path.write_text(content)
    for use in (LockFile(path).entries, lambda: LockFile(path).record({'u': A})):
        with user_error('lock.json'):
            use()
    assert path.read_text() == content


def test_any_small_change_is_read_or_refused(tmp_path):
    lock = LockFile(tmp_path / 'lock.json')
    data = {'version': 1, 'files': {'http://x': ENTRY}}
    changed = [json.dumps(data) for _, data in mutations(data)]
    for text in (*changed, '[' * 10**5, '{"files": NaN}'):
        lock.path.write_text(text)
        try:
            assert all(isinstance(entry.size, int) for entry in lock.entries().values())
        except UserError as error:
            assert f'{lock.path} is no lock file' in str(error)
