"""
A user's file is a file: what is not there, may never come, or never ends, is one line.
"""

import io
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from parlai_ext.data.chat_logs import SourceFile
from parlai_ext.data.imported_dialogues import read_dialogue_texts
from parlai_ext.files import (
    existing_file,
    missing_file,
    open_zip,
    read_csv,
    read_file,
    read_json,
    read_member,
    sha256,
    text_file,
)
from tests.support.user_error import error_line, user_error
from tests.support.written import written, zip_of

READERS = {
    'csv': lambda path: list(read_csv(path, ['a'])),
    'json': lambda path: read_json(path, dict),
    'yaml': read_file,
    'dialogues': SourceFile.from_path,
    'pairs': lambda path: list(text_file.text_lines(path)),
    'hash': sha256,
}


@pytest.mark.parametrize('reader', READERS.values(), ids=READERS)
@pytest.mark.parametrize('kind', ['device', 'pipe'])
def test_a_pipe_or_a_device_is_one_line(kind, reader, tmp_path):
    path = Path('/dev/zero')
    if kind == 'pipe':
        path = tmp_path / 'pipe'
        os.mkfifo(path)
    with user_error(f'^{path}: a pipe or a device'):
        reader(path)


def test_a_text_that_no_memory_holds_is_one_line(tmp_path):
    path = tmp_path / 'sparse.json'
    with open(path, 'wb') as file:
        file.truncate(text_file.LARGEST_TEXT + 1)
    with user_error(f'^{path}: more than 4,294,967,296 bytes'):
        read_json(path, dict)


def test_a_line_without_end_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(text_file, 'LONGEST_LINE', 10)
    path = tmp_path / 'x.txt'
    path.write_text('a\n012345678\n0123456789\n')
    lines = text_file.text_lines(path)
    assert [next(lines)[0], next(lines)[0]] == [1, 2]
    with user_error(f'{path}:3: a line of more than 10'):
        next(lines)


@pytest.mark.parametrize('reader', ['csv', 'json', 'dialogues', 'pairs'])
def test_a_zip_is_no_text(reader, tmp_path):
    path = written(tmp_path, 'x.csv', zip_of([('a', 'b')]))
    with user_error(f'^{path}: a zip file'):
        READERS[reader](path)


# Files that are not there


def test_the_nearest_file_is_named(tmp_path):
    (tmp_path / 'model').touch()
    hint = f"did you mean '{tmp_path}/model'?"
    assert missing_file(f'{tmp_path}/modle').endswith(hint)
    # a file in the place of a folder is no hint at itself
    problem = missing_file(f'{tmp_path}/model/dict')
    assert problem.endswith(f'{tmp_path}/model is no folder')


def test_a_link_to_nothing_and_a_pipe_are_no_hints_at_themselves(tmp_path):
    (tmp_path / 'link').symlink_to(tmp_path / 'gone')
    os.mkfifo(tmp_path / 'pipe')
    for name in ('link', 'pipe'):
        line = error_line(existing_file, f'{tmp_path}/{name}', 'model_file')
        assert line.startswith('model_file: ') and f'{name} is' in line
        assert 'did you mean' not in line


@pytest.mark.parametrize('path', ['x' * 5000, 'x' * 300, 'a\0b'])
def test_what_can_be_no_path_is_one_short_line(path):
    line = error_line(existing_file, path, 'model_file')
    assert line.startswith('model_file: ') and ' is no path: ' in line
    assert len(line) < 200
    assert ' is no path: ' in missing_file(path)


# Zips: the members are counted in the bytes of the directory, before Python reads it

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
