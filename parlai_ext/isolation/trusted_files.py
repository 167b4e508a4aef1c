"""
Which files the user trusts to run code: models and agents, by their hash, in the user's
own configuration folder. Nothing in a run says so.
"""

import logging
import os
from collections.abc import Iterable
from pathlib import Path

from parlai_ext.files.option_files import sha256
from parlai_ext.isolation.own_records import configuration_folder, write_note

logger = logging.getLogger(__name__)


def note_trust(files: Iterable[Path]) -> None:
    """
    Note that the user trusts these files as they are now.
    """
    for file in files:
        folder = _folder()
        try:
            write_note(folder and folder / sha256(file), f'{file.resolve()}\n')
        except OSError as error:
            words = error.strerror or error
            logger.warning('that %s is trusted cannot be noted (%s)', file, words)


def is_trusted_file(path: str | Path) -> bool:
    """
    True if the user trusted this very file, in this command or an earlier one.
    """
    folder = _folder()
    if folder is None or not folder.is_dir() or not os.path.isfile(path):
        return False
    return (folder / sha256(Path(path))).is_file()


def _folder() -> Path | None:
    folder = configuration_folder()
    return folder and folder / 'trusted'
