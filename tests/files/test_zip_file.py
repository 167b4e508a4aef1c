"""
The members of a zip are counted in the bytes of its directory, before Python reads it.
"""

import io
import struct
import tracemalloc
import zipfile

import pytest

from parlai_ext.data.imported_dialogues import read_dialogue_texts
from parlai_ext.files import open_zip, read_member
from tests.support.user_error import user_error
from tests.support.written import written, zip_of

TEN = [(str(i), b'x') for i in range(10)]


@pytest.mark.parametrize('comment', [b'', b'a comment'])
@pytest.mark.parametrize('zip64', [False, True])
def test_a_zip_may_have_as_many_members_as_is_said(comment, zip64, monkeypatch):
    if zip64:
        monkeypatch.setattr(zipfile, 'ZIP_FILECOUNT_LIMIT', 1)
    data = zip_of(TEN)[:-2] + struct.pack('<H', len(comment)) + comment
    assert (b'PK\x06\x06' in data) == zip64
    with open_zip(io.BytesIO(data), most=10) as archive:
        assert len(archive.namelist()) == 10
    monkeypatch.setattr(zipfile, 'ZipFile', None)  # which would read the directory
    with pytest.raises(zipfile.BadZipFile, match='more than 9 members'):
        open_zip(io.BytesIO(data), most=9)


def test_the_number_that_a_zip_gives_itself_is_not_believed(tmp_path):
    data = bytearray(zip_of(TEN))
    end = data.rindex(b'PK\x05\x06')
    data[end + 8 : end + 12] = struct.pack('<2H', 1, 1)
    path = written(tmp_path, 'x.zip', bytes(data))
    assert len(zipfile.ZipFile(path).namelist()) == 10  # nor does Python
    with pytest.raises(zipfile.BadZipFile, match='more than 9 members'):
        open_zip(path, most=9)


def test_a_directory_that_is_too_long_is_not_read(monkeypatch):
    monkeypatch.setattr('parlai_ext.files.zip_file.LONGEST_ENTRY', 1)
    with pytest.raises(zipfile.BadZipFile, match='more than 10 members'):
        open_zip(io.BytesIO(zip_of(TEN)), most=10)


def test_a_damaged_zip_of_dialogues_is_one_line(tmp_path):
    data = zip_of(TEN).replace(b'PK\x01\x02', b'PK\x01\x03')
    with user_error(r'x\.zip: it cannot be read: '):
        read_dialogue_texts([str(written(tmp_path, 'x.zip', data))])


def zip_of_zeros(n, compression):
    return bytearray(zip_of([('zeros', bytes(n))], compression))


def refuse_zeros(data, words):
    refused = pytest.raises(zipfile.BadZipFile, match=words)
    with open_zip(io.BytesIO(data)) as archive, refused:
        read_member(archive, 'zeros')


@pytest.mark.parametrize(
    'compression',
    [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA],
)
def test_a_member_is_read_up_to_its_bound(compression, monkeypatch):
    monkeypatch.setattr('parlai_ext.files.zip_file.LARGEST_MEMBER', 100_000)
    with open_zip(io.BytesIO(zip_of_zeros(100_000, compression))) as archive:
        assert read_member(archive, 'zeros') == bytes(100_000)
    refuse_zeros(zip_of_zeros(100_001, compression), 'zeros has more than 100,000')


def test_a_member_that_is_larger_than_it_says_is_not_unpacked():
    data = zip_of_zeros(16 * 2**20, zipfile.ZIP_DEFLATED)
    for mark, place in ((b'PK\x01\x02', 24), (b'PK\x03\x04', 22)):
        start = data.index(mark) + place
        data[start : start + 4] = struct.pack('<L', 1000)
    tracemalloc.start()
    refuse_zeros(data, 'zeros: .*CRC')
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2**20


def test_a_damaged_member_and_a_strange_compression_are_named(uninstalled):
    uninstalled('zipfile_zstd')  # as if not installed
    data = zip_of_zeros(10_000, zipfile.ZIP_DEFLATED)
    entry = data.index(b'PK\x01\x02')
    for place, value, words in ((10, 93, 'zipfile-zstd'), (10, 77, 'compression')):
        strange = data.copy()
        strange[entry + place] = value
        strange[data.index(b'PK\x03\x04') + 8] = value
        refuse_zeros(strange, f'zeros: .*{words}')
    data[entry - 5] ^= 0xFF
    refuse_zeros(data, 'zeros: ')
