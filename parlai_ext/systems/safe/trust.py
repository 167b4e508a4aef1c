"""
Which model files may run code when they are read: those that the user names, no others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.fetch.data_folder import local_path
from parlai_ext.systems.safe.load import guarded


def trusting(opt: Mapping[str, Any]) -> AbstractContextManager[None]:
    """
    Let the files that ``--trust-model-code`` names run code, and keep all others data.
    """
    files = _files(opt)
    if not files:
        return nullcontext()
    return guarded([str(f) for file in files for f in (file, f'{file}.opt')])


def trusted(opt: Mapping[str, Any]) -> dict[str, str]:
    """
    Return the hash of each trusted file, for the manifest.
    """
    return trusted_record([str(file) for file in _files(opt)])


def _files(opt: Mapping[str, Any]) -> Sequence[Path]:
    found = []
    for name in opt.get('trust_model_code') or ():
        file = local_path(name, opt.get('datapath'))
        if not file.is_file():
            raise UserError(f'--trust-model-code: there is no file {file}')
        found.append(file)
    return found


def trusted_record(paths: Sequence[str]) -> dict[str, str]:
    """
    Return the hash of each file that was trusted, by its name; where names are the
    same, by as much of the path as tells them apart.
    """
    found: dict[str, str] = {}
    for path in dict.fromkeys(map(os.path.realpath, paths)):
        if not os.path.isfile(path):
            raise UserError(f'--trust-model-code: there is no file {path}')
        others = {os.path.realpath(p) for p in paths} - {path}
        parts = Path(path).parts
        n = 1
        while any(Path(other).parts[-n:] == parts[-n:] for other in others):
            n += 1
        found['/'.join(parts[-n:])] = sha256(Path(path))
    return found
