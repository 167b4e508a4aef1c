"""
A pack is a stranger's file: archives that would harm are refused by name.
"""

import io
import zipfile
from contextlib import suppress

import pytest

from parlai_ext.core import UserError
from parlai_ext.packs import pack
from parlai_ext.packs.check_pack import check_pack
from parlai_ext.packs.pack import INDEX, open_pack, zip_bytes
from tests.support.published_runs import files_in
from tests.support.user_error import user_error
from tests.support.written import written, zip_of


@pytest.mark.parametrize(
    'entries, why',
    [
        # of other ways: tests/systems/test_archives.py
        ([('../evil', b'x')], 'no plain path'),
        *(
            ([(INDEX, index)], 'is no pack')
            for index in (
                b'[]',
                b'{}',
                b'{"format": "parlai_ext pack", "schema": 9}',
                b'{"format": "parlai_ext pack", "schema": 1, "members": 3}',
                b'[' * 100_000,
                b'\xff',
            )
        ),
    ],
)
def test_an_archive_that_would_harm_is_refused_in_one_line(tmp_path, entries, why):
    path = written(tmp_path, 'p.zip', zip_of(entries, zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 2**20
    with user_error(why), open_pack(path):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ['p.zip']


@pytest.mark.parametrize('data', [b'PK\x03\x04 not really', b'<html>403</html>'])
def test_what_is_no_zip_file_is_one_line(tmp_path, data):
    with user_error('publish_run'), open_pack(tmp_path):
        pass
    with user_error('p.zip'):
        check_pack(written(tmp_path, 'p.zip', data))


def large_import(manifest):
    counts = dict.fromkeys(('dialogues', 'left_out', 'bad_rows', 'people_only'), 0)
    files = {'format': 'csv', 'content': '', 'files': {}, 'silent': {}}
    manifest['imported'] = {**counts, **files, 'dialogues_a_pair': 9_999_999}
    manifest['protocol']['pairing'] = 'imported'


@pytest.mark.parametrize(
    'change, named',
    [
        (lambda m: m['protocol']['ranking'].update(bootstraps=10**9), 'bootstraps'),
        (large_import, 'openers'),
        (lambda m: m.update(shard_size=-1), 'shard_size'),
    ],
)
def test_a_manifest_that_asks_for_too_much_work_is_refused_before_it_is_done(
    forged, monkeypatch, change, named
):
    path = forged('manifest.json', change)
    monkeypatch.setattr(pack, 'RunFolder', None)  # it makes all openers
    with user_error(named), open_pack(path):
        pass


@pytest.mark.parametrize(
    'change',
    [
        lambda m: m.update(protocol={}),
        lambda m: m['protocol'].update(pairing=['bipartite']),
        lambda m: m['protocol'].update(ranking={'bootstraps': 'x'}),
        lambda m: m.update(pairings=[]),
        lambda m: m.update(systems={}),
    ],
)
def test_a_manifest_of_another_kind_is_wrong_and_no_traceback(forged, change):
    with suppress(UserError):
        assert check_pack(forged('manifest.json', change)).problems


def test_the_bytes_of_a_zip_do_not_depend_on_the_order_of_its_files():
    data = zip_bytes({'b': b'2', 'a': b'1'})
    assert data == zip_bytes({'a': b'1', 'b': b'2'})
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        entries = [(info.filename, info.date_time) for info in opened.infolist()]
    assert entries == [(name, (1980, 1, 1, 0, 0, 0)) for name in 'ab']


def test_the_id_does_not_depend_on_how_the_archive_is_packed(packs, tmp_path):
    data = zip_of(files_in(packs['both']).items())
    path = written(tmp_path, 'stored.zip', data)
    with open_pack(path) as stored, open_pack(packs['both']) as packed:
        assert stored.id == packed.id


def test_a_pack_that_names_hostile_members_is_refused(forged):
    member = {'../../x': {'sha256': '0', 'bytes': 1}}
    path = forged(INDEX, lambda index: index['members'].update(member), honest=True)
    with user_error('missing'), open_pack(path):
        pass
