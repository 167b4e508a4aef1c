"""
A file that an option names: there, or what may be meant instead.
"""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.files.roster_file import INDEX_OPTIONS
from parlai_ext.systems.content import files_at


def existing(path: str, what: str) -> Path:
    """
    Return the file that option ``what`` names; an index by the start of its names.

    :raises UserError: when there is none.
    """
    found = Path(path)
    index = what in INDEX_OPTIONS
    if found.is_file() or (index and files_at(found, beginning=True)):
        return found
    raise UserError(f'{what}: {nearest_file(path)}')


def nearest_file(path: str) -> str:
    """
    Say that there is no such file, and which one may be meant.
    """
    wanted = Path(path)
    if wanted.is_dir():
        inside = wanted / 'model'
        hint = f'; did you mean {str(inside)!r}?' if inside.is_file() else ''
        return f'{path} is a folder, not a file{hint}'
    parent = wanted.parent
    if not parent.is_dir():
        while not parent.is_dir():
            wanted, parent = parent, parent.parent
        return f'there is no file {path}: no folder {wanted}{_like(wanted)}'
    return f'there is no file {path}{_like(wanted)}'


def _like(wanted: Path) -> str:
    try:
        names = os.listdir(wanted.parent)
    except OSError:
        return ''
    close = difflib.get_close_matches(wanted.name, names, n=1)
    return f'; did you mean {str(wanted.with_name(close[0]))!r}?' if close else ''
