"""
Small files for tests.
"""

import io
import json
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


def changed_json(path, **more):
    """
    Change keys of the JSON object in a file.
    """
    path = Path(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **more}))


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
