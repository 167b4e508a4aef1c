"""
The files of ``--trust-model-code``; to name them needs no library of models.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from parlai_ext.core import UserError
from parlai_ext.files.option_files import sha256
from parlai_ext.isolation.own_records import note_trust
from parlai_ext.systems.fetch.data_folder import local_path


def note_trusted(names: Sequence[str], *, on_disk: bool = True) -> None:
    """
    Let the files of ``--trust-model-code`` run code, in later commands, too.

    :param on_disk: as of `note_trust`.
    """
    files = _existing_files(names)
    options = [Path(f'{file}.opt') for file in files]
    options = [file for file in options if file.is_file()]
    note_trust([*files, *options], on_disk=on_disk)


def trusted_hashes(names: Sequence[str] | None) -> dict[str, str]:
    """
    Return the hash of each trusted file by its name; where names are the same, by as
    much of the path as tells them apart.
    """
    paths = map(os.path.realpath, _existing_files(names or ()))
    files = [Path(path) for path in dict.fromkeys(paths)]
    hashes: dict[str, str] = {}
    for file in files:
        n = 1
        while any(o.parts[-n:] == file.parts[-n:] for o in files if o != file):
            n += 1
        hashes['/'.join(file.parts[-n:])] = sha256(file)
    return hashes


def _existing_files(names: Sequence[str]) -> list[Path]:
    files = [local_path(name) for name in names]
    for file in files:
        if not file.is_file():
            raise UserError(f'--trust-model-code: there is no file {file}')
    return files
