"""
A user's file of JSON, or of JSON lines: its values, or one clear error.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.files.text_file import read_utf8, text_lines


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


def json_lines(path: str | Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """
    Yield the number and the object of each line that is not empty.

    :raises UserError: names the file, and the line that holds something else.
    """
    for number, line in text_lines(path):
        try:
            row = parse_json(line)
        except ValueError as error:
            raise UserError(f'{path}:{number}: not JSON: {error}') from None
        if not isinstance(row, dict):
            raise UserError(f'{path}:{number}: a JSON object is expected')
        yield number, row


def is_texts(value: Any) -> bool:
    """
    True for a list of texts.
    """
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
