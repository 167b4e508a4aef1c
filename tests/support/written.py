"""
Small files for tests.
"""

import csv
import io
import json
import struct
import tarfile
import warnings
import zipfile
from pathlib import Path


def written(folder, name, data):
    """
    Return the path of a new file: bytes, a text, JSON lines of a list for a ``.jsonl``,
    or JSON of anything else.
    """
    path = folder / name
    if isinstance(data, list) and name.endswith('.jsonl'):
        data = ''.join(json.dumps(record) + '\n' for record in data)
    if not isinstance(data, bytes):
        data = (data if isinstance(data, str) else json.dumps(data)).encode()
    path.write_bytes(data)
    return path


def json_in(path):
    """
    Return what a file of JSON holds.
    """
    return json.loads(path.read_text('utf-8'))


def json_rows(path):
    """
    Return the objects of a file of JSON lines.
    """
    return [json.loads(line) for line in path.read_text('utf-8').strip().split('\n')]


def csv_rows(path):
    """
    Return the rows of a CSV file by the names of its columns.
    """
    with open(path, newline='', encoding='utf-8-sig') as file:
        return rows_of_csv(file.read())


def rows_of_csv(text):
    """
    Return the rows of a CSV text by the names of its columns.
    """
    return list(csv.DictReader(io.StringIO(text)))


def on_one_line(text):
    """
    Return a text whose words have one blank between them.
    """
    return ' '.join(text.split())


def changed_json(path, **more):
    """
    Change keys of the JSON object in a file.
    """
    path = Path(path)
    path.write_text(json.dumps({**json_in(path), **more}))


def zip_of(members, compression=zipfile.ZIP_STORED):
    """
    Return a zip file with these members, pairs of name and content.
    """
    out = io.BytesIO()
    with (
        warnings.catch_warnings(action='ignore'),  # of names that are there twice
        zipfile.ZipFile(out, 'w', compression) as archive,
    ):
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def tar_of(kind, link):
    """
    Return a tar file as torch's old form is, whose member is a link or a device.

    :param kind: a type of `tarfile`.
    """
    member = tarfile.TarInfo('storages')
    member.type, member.linkname, member.mode = kind, str(link), 0o777
    member.devmajor, member.devminor = 1, 5  # /dev/zero
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:') as archive:
        archive.addfile(member)
    return out.getvalue()


def safetensors_of(header, data=b'', size=None):
    """
    Return a file of safetensors with these bytes as header, and behind it.

    :param size: of the header, where it is not right.
    """
    return struct.pack('<Q', len(header) if size is None else size) + header + data
