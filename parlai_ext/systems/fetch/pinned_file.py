"""
Small public files that are fetched on request, because they may not be shipped.

A file is known by its checksum, so that it does not matter who gives it. A program of
others is read for the literals that it assigns; nothing in it is run.
"""

import ast
from pathlib import Path
from typing import Any

from parlai_ext.core import UserError
from parlai_ext.files import sha256

MOST_BYTES = 5_000_000


def read_pinned(url: str, checksum: str, place: Path, what: str, instead: str) -> bytes:
    """
    Return a file of this checksum from its place, where it is put if need be.

    :param what: what errors call it, with its licence.
    :param instead: what the user may give in its place.
    :raises UserError: when it cannot be had, or is not the file it was.
    """
    if not place.is_file() or sha256(place) != checksum:
        # an HTTP library, which only this needs
        from parlai_ext.systems.fetch.checked_downloads import fetch_pinned

        try:
            fetch_pinned(url, checksum, place, MOST_BYTES)
        except UserError as error:
            raise UserError(
                f'{what} cannot be fetched: {error}; put that file at {place}, or give '
                f'{instead}'
            ) from None
    return place.read_bytes()


def assigned_literals(source: str) -> dict[str, list[Any] | dict[Any, Any]]:
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
