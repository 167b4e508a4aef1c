"""
Small public files that are fetched on request, because they may not be shipped.

A file is known by its checksum, so that it does not matter who gives it. A program of
others is read for the literals that it assigns; nothing in it is run.
"""

import ast
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core import UserError

MOST_BYTES = 5_000_000


@dataclass(frozen=True)
class PinnedFile:
    """
    A file at an address, and what it is.

    :param what: what errors call it, with its licence.
    :param instead: what the user may give in its place.
    """

    url: str
    sha256: str
    what: str
    instead: str

    def fetch(self, cached: Path) -> bytes:
        """
        Return the file, from the cache or the network.

        :raises UserError: when it cannot be had, or is not the file it was.
        """
        data = cached.read_bytes() if cached.is_file() else b''
        if hashlib.sha256(data).hexdigest() == self.sha256:
            return data
        # an HTTP library, which only this needs
        from parlai_ext.systems.fetch.checked_downloads import fetch_pinned

        try:
            fetch_pinned(self.url, self.sha256, cached, MOST_BYTES)
        except UserError as error:
            raise UserError(
                f'{self.what} cannot be fetched: {error}; put that file at {cached}, '
                f'or give {self.instead}'
            ) from None
        return cached.read_bytes()


def assigned_literals(source: str) -> dict[str, Any]:
    """
    Return the lists and mappings that a program assigns to single names; nothing is
    run.
    """
    assigned = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List | ast.Dict):
            [*_, target] = node.targets
            try:
                assigned[getattr(target, 'id', '')] = ast.literal_eval(node.value)
            except ValueError:  # no literal
                continue
    return assigned
