"""
Small files for tests.
"""

import json
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
