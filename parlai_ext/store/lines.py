"""
Records as lines of JSON that betray any damage.

A line is the only spelling of its record: sorted keys, shortest floats, a checksum
of the rest. Line separators that JSON lets stand are escaped, so that readers that
split on them (ParlAI's `splitlines()`) see one line a record, and so are lone
surrogates, which UTF-8 cannot hold. Two lone surrogates that form a pair are, in
JSON, the character that they encode, and come back as that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError

_UNSAFE = re.compile('[\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_HEAD = re.compile(r'\{"checksum": "([0-9a-f]{16})", ')


def dumps(value: Any, **kwargs: Any) -> str:
    """
    Return ``value`` as JSON that any reader of UTF-8 lines can take.

    :raises ValueError: for NaN or infinity, which JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **kwargs)
    return _UNSAFE.sub(lambda found: f'\\u{ord(found[0]):04x}', text)


def checksum(record: Mapping[str, Any]) -> str:
    """
    Return 16 hex digits of the record's content, its own checksum left out.
    """
    rest = {key: value for key, value in record.items() if key != 'checksum'}
    return _digest(dumps(rest, sort_keys=True, separators=(',', ':')))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def encode(record: Mapping[str, Any]) -> str:
    """
    Return the one line that stands for ``record``.
    """
    whole = {**record, 'checksum': checksum(record)}
    return dumps(whole, sort_keys=True)


def decode(line: bytes) -> dict[str, Any]:
    """
    Return the record of a line.

    :raises ValueError: when the line is not exactly as `encode` wrote it.
    """
    text = line.decode()
    record = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError('not a record')
    if not _intact(text) and encode(record) != text:
        raise ValueError('the checksum does not fit')
    del record['checksum']
    return record


def _intact(line: str) -> bool:
    """
    Tell that a line of JSON has the text that `encode` wrote; if not, it still may.

    The checksum is of that text without itself and without the spaces behind ``,`` and
    ``:``. Taking them out is quicker than writing the record out again.
    """
    head = _HEAD.match(line)
    if head is None:
        return False
    # JSON holds no such characters; without these escapes a quote ends a string
    text = line[head.end() :].replace('\\\\', '\1').replace('\\"', '\2')
    pieces = text.split('"')  # every other one is a string
    outside = '"'.join(pieces[::2])
    compact = outside.replace(', ', ',').replace(': ', ':')
    if compact.replace(',', ', ').replace(':', ': ') != outside:
        return False
    pieces[::2] = compact.split('"')
    text = '"'.join(pieces).replace('\2', '\\"').replace('\1', '\\\\')
    return _digest('{' + text) == head[1]


def encode_shard(records: Sequence[Mapping[str, Any]], index: int) -> bytes:
    """
    Return a shard's bytes; each line knows its place, so that none can be missing.
    """
    of = len(records)
    lines = [
        encode({**record, 'shard': {'index': index, 'line': n, 'of': of}})
        for n, record in enumerate(records)
    ]
    return ''.join(line + '\n' for line in lines).encode()


def decode_shard(data: bytes, index: int, path: Path) -> list[dict[str, Any]]:
    """
    Return a shard's records.

    :raises UserError: naming file and line when anything in it is not as written.
    """
    *lines, rest = data.split(b'\n')
    records: list[dict[str, Any]] = []
    of = None
    for n, line in enumerate(lines):
        try:
            record = decode(line)
            place = record.pop('shard')
        except (ValueError, KeyError, RecursionError) as error:
            raise damaged(path, f'line {n + 1} is damaged ({_brief(error)})') from None
        of = place['of'] if of is None else of
        if place != {'index': index, 'line': n, 'of': of}:
            raise damaged(path, f'line {n + 1} belongs to another place')
        records.append(record)
    if rest:
        raise damaged(path, f'line {len(lines) + 1} is cut off')
    if of != len(records):
        raise damaged(path, f'line {len(records) + 1} is missing')
    return records


def damaged(path: Path, what: str) -> UserError:
    """
    Return the error for a damaged shard, with the way out.
    """
    return UserError(
        f'{path}: {what}; delete this file and run again to have it redone'
    )


def _brief(error: Exception) -> str:
    """
    Return an error's words on one short line.
    """
    words = ' '.join(str(error).split())
    return ascii(words)[1:-1][:80]
