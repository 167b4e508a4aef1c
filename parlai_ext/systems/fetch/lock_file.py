"""
The lock file: the checksum that each address gave at its first download, as JSON.

    {"files": {"http://…/BST3B.tgz": {"sha256": "…", "size": 5013279}}, "version": 1}
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.store.atomic import make_folder, write_file
from parlai_ext.systems.fetch.data_folder import exclusive

NAME = 'parlai_ext.lock.json'
VERSION = 1
SHA256 = re.compile('[0-9a-f]{64}')


@dataclass(frozen=True)
class Entry:
    """
    Checksum and size of a downloaded file.
    """

    sha256: str
    size: int


@dataclass(frozen=True)
class LockFile:
    """
    The file with an entry for each address; it need not exist yet.
    """

    path: Path

    def entries(self) -> dict[str, Entry]:
        """
        Return the entries by address.

        :raises UserError: when the file is no lock file, or damaged.
        """
        try:
            content = parse_json(self.path.read_bytes())
            if content['version'] != VERSION:
                raise ValueError(f'version {content["version"]!r}, not {VERSION}')
            return {url: _entry(value) for url, value in content['files'].items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            raise UserError(
                f'{self.path} is no lock file ({type(e).__name__}: {e}); restore it, '
                'or remove it to trust the next downloads anew'
            ) from None

    def record(self, downloaded: Mapping[str, Entry]) -> None:
        """
        Add new entries; those that are there stay as they are.

        :raises UserError: when another process recorded something else meanwhile.
        """
        if not downloaded:
            return
        make_folder(self.path.parent)
        with exclusive(self.path.parent):
            entries = self.entries()
            for url, entry in downloaded.items():
                self.check(url, entry, entries.setdefault(url, entry))
            files = {url: asdict(entry) for url, entry in entries.items()}
            content = {'version': VERSION, 'files': files}
            text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False)
            write_file(self.path, f'{text}\n'.encode())

    def check(self, url: str, entry: Entry, recorded: Entry | None) -> None:
        """
        Refuse a download that differs from what is recorded of its address.

        :raises UserError: naming both checksums.
        """
        if recorded not in (None, entry):
            assert recorded is not None
            raise UserError(
                f'{url}: its sha256 is {entry.sha256}, but {self.path} has '
                f'{recorded.sha256}, recorded at the first download; the file is not '
                'trusted. If the change is known and right, remove that entry'
            )


def _entry(value: Mapping[str, Any]) -> Entry:
    entry = Entry(value['sha256'], value['size'])
    if not SHA256.fullmatch(entry.sha256) or not isinstance(entry.size, int):
        raise ValueError(f'sha256 {entry.sha256!r}, size {entry.size!r}')
    return entry
