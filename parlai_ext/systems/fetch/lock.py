"""
What each address gave at its first trusted download: one JSON file of hashes.

    {"files": {"http://…/BST3B.tgz": {"sha256": "…", "size": 5013279}}, "version": 1}
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.store.atomic import make_folder, write_file

VERSION = 1
SHA256 = re.compile('[0-9a-f]{64}')


@dataclass(frozen=True)
class Entry:
    """
    What a file was when it was first trusted.
    """

    sha256: str
    size: int


@dataclass(frozen=True)
class LockFile:
    """
    The file that holds an entry for each address; it need not be there yet.
    """

    path: Path

    def entries(self) -> dict[str, Entry]:
        """
        Return what was recorded, by address.

        :raises UserError: when the file is not one of ours, or is damaged.
        """
        try:
            text = self.path.read_text(encoding='utf-8')
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError) as e:
            raise UserError(f'{self.path} cannot be read: {e}') from None
        try:
            found = json.loads(text)
            files = found['files']
            if found['version'] != VERSION:
                raise UserError(
                    f'{self.path}: version {found["version"]!r}, where {VERSION} is '
                    'known; a newer parlai_ext reads it'
                )
            return {url: _entry(value) for url, value in files.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise UserError(
                f'{self.path} is no lock file ({type(e).__name__}: {e}); restore it, '
                'or remove it to trust the next downloads anew'
            ) from None

    def record(self, found: Mapping[str, Entry]) -> None:
        """
        Add what is new; what is recorded stays as it is.

        :raises UserError: when another process recorded something else meanwhile.
        """
        if not found:
            return
        make_folder(self.path.parent)
        with _alone(self.path.parent):
            entries = self.entries()
            for url, entry in found.items():
                if entries.setdefault(url, entry) != entry:
                    raise UserError(differs(url, entry.sha256, self.path, entries[url]))
            files = {url: asdict(entry) for url, entry in entries.items()}
            content = {'version': VERSION, 'files': files}
            text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
            data = f'{text}\n'.encode()
            if not self.path.is_file() or self.path.read_bytes() != data:
                write_file(self.path, data)


def differs(url: str, sha256: str, lock: Path, entry: Entry) -> str:
    """
    Say that a file is not what it was, and what to do where that is known and right.
    """
    return (
        f'{url}: its sha256 is {sha256}, but {lock} has {entry.sha256}, recorded at '
        'the first download; what came is not trusted. If the change is known and '
        'right, remove that entry'
    )


def _entry(value: Mapping[str, object]) -> Entry:
    sha256, size = value['sha256'], value['size']
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
        raise ValueError(f'sha256 {sha256!r}')
    if not isinstance(size, int):
        raise ValueError(f'size {size!r}')
    return Entry(sha256, size)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """
    Wait until no other process records in this folder.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
