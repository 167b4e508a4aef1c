"""
What came, put where it will be seen.
"""

from __future__ import annotations

import os
from pathlib import Path

from parlai_ext.core.errors import UserError


def move_into(source: Path, target: Path) -> None:
    """
    Move what is in a folder into another: folders merged, files replaced.

    A ``.built`` comes last: it says that the rest is there.

    :raises UserError: before anything is moved, when a file would have to take the
        place of a folder, or a folder that of a file.
    """
    _check_places(source, target)
    _move(source, target)


def _check_places(source: Path, target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise UserError(f'{target} is a file here, and a folder in what came')
    for entry in sorted(source.iterdir()):
        place = target / entry.name
        if entry.is_dir():
            _check_places(entry, place)
        elif place.is_dir():
            raise UserError(f'{place} is a folder here, and a file in what came')


def _move(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for entry in sorted(source.iterdir(), key=lambda p: (p.name == '.built', p.name)):
        place = target / entry.name
        if entry.is_dir() and place.is_dir():
            _move(entry, place)
        else:
            os.replace(entry, place)
