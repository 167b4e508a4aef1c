"""
A user's JSON file: its value, or one clear error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.files.text_file import read_utf8


def read_json(path: str | Path, kind: type, called: str = '') -> Any:
    """
    Return the JSON value in a file.

    :param kind: what it must be: ``list`` or ``dict``.
    :param called: what messages say before its path.
    :raises UserError: names the file that cannot be read, or has something else.
    """
    try:
        value = parse_json(read_utf8(path, called))
    except ValueError as error:
        raise UserError(f'{called}{path}: not JSON: {error}') from None
    if not isinstance(value, kind):
        expected = 'a JSON list' if kind is list else 'a JSON object'
        raise UserError(f'{called}{path}: {expected} is expected')
    return value
