"""
Scratch folders in which a download becomes complete before anybody sees it.

Below ``<datapath>/models`` one hidden folder holds, for each address, the part that was
downloaded, and for each folder of the zoo a scratch data folder in which ParlAI builds
its models. A process holds such a folder by a lock on it; empty ones stay.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parlai_ext.systems.fetch.archives import move_into

HIDDEN = '.parlai_ext-partial'
logger = logging.getLogger(__name__)


def downloads_folder(datapath: Path) -> Path:
    """
    Return the hidden folder of the downloads that are not complete.
    """
    return datapath / 'models' / HIDDEN


def part_folder(url: str, datapath: Path) -> Path:
    """
    Return the folder for the part of one address.
    """
    return downloads_folder(datapath) / hashlib.sha256(url.encode()).hexdigest()[:32]


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """
    Make a folder and hold a lock on it; wait while another process holds it.

    The system frees the lock when its holder ends, however it ends.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.warning('another process is downloading to %s; waiting', folder)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def empty(folder: Path) -> None:
    """
    Remove what is in a folder, which stays.
    """
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


@dataclass
class ScratchFolder:
    """
    A data folder in which ParlAI builds a model, and the one to which it then moves.

    :param path: given to ParlAI as its data folder.
    :param datapath: the real one.
    :param marks: the ``.built`` files of the real one, by their path inside.
    """

    path: Path
    datapath: Path
    marks: dict[Path, bytes] = field(default_factory=dict)

    def copy_marks(self) -> None:
        """
        Let ParlAI see which models of the real folder are built, in which version.
        """
        for folder, inside, names in os.walk(self.datapath / 'models'):
            inside[:] = [name for name in inside if name != HIDDEN]
            if '.built' in names:
                mark = Path(folder, '.built').relative_to(self.datapath)
                self.marks[mark] = (self.datapath / mark).read_bytes()
                (self.path / mark).parent.mkdir(parents=True, exist_ok=True)
                (self.path / mark).write_bytes(self.marks[mark])

    def publish(self) -> None:
        """
        Move the new models to the real folder, in the place of older versions.
        """
        for number, (mark, content) in enumerate(self.marks.items()):
            copy, older = self.path / mark, self.datapath / mark.parent
            if copy.is_file() and copy.read_bytes() == content:
                copy.unlink()  # nothing new
            elif copy.is_file() and older.is_dir():
                os.replace(older, self.path.with_name(f'older-{number}'))
        move_into(self.path, self.datapath)


@contextlib.contextmanager
def scratch_folder(datapath: Path, name: str) -> Iterator[ScratchFolder]:
    """
    Give the scratch data folder for one folder of the zoo; it is emptied at the end.
    """
    folder = downloads_folder(datapath) / re.sub(r'\W', '_', f'scratch-{name}')
    with exclusive(folder):
        empty(folder)  # of a process that was killed
        scratch = ScratchFolder(folder / 'data', datapath)
        scratch.path.mkdir()
        try:
            scratch.copy_marks()
            yield scratch
        finally:
            empty(folder)
