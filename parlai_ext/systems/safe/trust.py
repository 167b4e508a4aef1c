"""
The model files that may run code when they are read: those that the user names.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.fetch.data_folder import local_path
from parlai_ext.systems.safe.load import guarded


def trust_files(
    names: Sequence[str] | None, datapath: str | None
) -> AbstractContextManager[None]:
    """
    Let the files of ``--trust-model-code`` run code, and read all others as data.
    Without such files nothing changes: systems are loaded as data anyway.
    """
    if not names:
        return nullcontext()
    files = _existing_files(names, datapath)
    return guarded([f'{file}{suffix}' for file in files for suffix in ('', '.opt')])


def trusted_hashes(names: Sequence[str] | None, datapath: str | None) -> dict[str, str]:
    """
    Return the hash of each trusted file by its name; where names are the same, by as
    much of the path as tells them apart.
    """
    paths = map(os.path.realpath, _existing_files(names or (), datapath))
    files = [Path(path) for path in dict.fromkeys(paths)]
    hashes: dict[str, str] = {}
    for file in files:
        n = 1
        while any(o.parts[-n:] == file.parts[-n:] for o in files if o != file):
            n += 1
        hashes['/'.join(file.parts[-n:])] = sha256(file)
    return hashes


def _existing_files(names: Sequence[str], datapath: str | None) -> list[Path]:
    files = [local_path(name, datapath) for name in names]
    for file in files:
        if not file.is_file():
            raise UserError(f'--trust-model-code: there is no file {file}')
    return files
