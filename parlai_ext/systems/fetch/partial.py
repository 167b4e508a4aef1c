"""
What has come of a file so far, in a folder of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.store.atomic import write_file


@dataclass(frozen=True)
class Partial:
    """
    What is here of a file, and what its server said of it.
    """

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / 'data'

    def about(self) -> dict[str, Any]:
        """
        Return what the server said: ``length``, ``etag``, ``modified``.

        Nothing, when the note is damaged: then what is here cannot be gone on with.
        """
        try:
            found = json.loads((self.folder / 'about.json').read_bytes())
        except (OSError, ValueError):
            return {}
        if not isinstance(found, dict) or not isinstance(found.get('length'), int):
            return {}
        return found

    def note(self, about: Mapping[str, Any]) -> None:
        text = json.dumps(about, sort_keys=True)
        write_file(self.folder / 'about.json', text.encode())

    def size(self) -> int:
        return self.data.stat().st_size if self.data.is_file() else 0

    def discard(self) -> None:
        self.data.unlink(missing_ok=True)
        (self.folder / 'about.json').unlink(missing_ok=True)

    def sha256(self) -> Any:
        """
        Return a hash that has read what is here, and can go on.
        """
        with open(self.data, 'rb') as file:
            return hashlib.file_digest(file, 'sha256')
