"""
A user's text file is a file: what may never come, or never end, is one line.
"""

import os
from pathlib import Path

import pytest

from parlai_ext.data.chat_logs import SourceFile
from parlai_ext.files import read_csv, read_file, read_json, sha256, text_file
from tests.support.user_error import user_error
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
