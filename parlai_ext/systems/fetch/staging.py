"""
Where a download becomes whole before anybody sees it.

Below ``<datapath>/models`` one folder holds what is under way: for each address the
part that has come, and for each folder of the zoo a data folder in which its own module
builds. A folder is held by a lock on itself, so nothing is left of it when it is gone.
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

from parlai_ext.systems.fetch.moving import move_into

UNDER_WAY = '.parlai_ext-partial'
STAGE = 'stage-'
log = logging.getLogger(__name__)


def under_way(datapath: Path) -> Path:
    """
    Return the folder of what is under way.
    """
    return datapath / 'models' / UNDER_WAY


def folder_of(url: str, datapath: Path) -> Path:
    """
    Return the folder for the parts of one address.
    """
    return under_way(datapath) / hashlib.sha256(url.encode()).hexdigest()[:32]


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """
    Make a folder and hold it, waiting while another process does; remove it if empty.
    """
    handle = _hold(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # when something is left to go on with
            folder.rmdir()
            if folder.parent.name == UNDER_WAY:
                folder.parent.rmdir()
        os.close(handle)


def _hold(folder: Path) -> int:
    while True:
        handle = _opened(folder)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                log.warning('another process is downloading to %s; waiting', folder)
                fcntl.flock(handle, fcntl.LOCK_EX)
            with contextlib.suppress(FileNotFoundError):  # its holder removed it
                if os.path.samestat(os.fstat(handle), folder.stat()):
                    return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _opened(folder: Path) -> int:
    tries = 1000
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (FileExistsError, FileNotFoundError):
            tries -= 1  # its holder removed it, or its parent, between two steps
            if not tries:
                raise


@dataclass
class Stage:
    """
    A data folder in which a model is built, and the one in which it will be seen.

    :param home: stands in for ParlAI's data folder.
    :param removed: folders of `home` whose older version is to go.
    """

    home: Path
    datapath: Path
    marks: dict[Path, bytes] = field(default_factory=dict)
    removed: list[Path] = field(default_factory=list)

    def mark_what_is_built(self) -> None:
        """
        Let ParlAI see here which models are built there, and in which version.
        """
        for place, folders, names in os.walk(self.datapath / 'models'):
            folders[:] = [name for name in folders if name != UNDER_WAY]
            if '.built' in names:
                mark = Path(place, '.built')
                inside = mark.relative_to(self.datapath)
                self.marks[inside] = mark.read_bytes()
                (self.home / inside).parent.mkdir(parents=True, exist_ok=True)
                (self.home / inside).write_bytes(self.marks[inside])

    def commit(self) -> None:
        """
        Put what was built into its place, in the place of an older version.
        """
        for inside, content in self.marks.items():
            mark = self.home / inside
            if mark.is_file() and mark.read_bytes() == content:
                mark.unlink()  # not new
        for number, folder in enumerate(self.removed):
            old = self.datapath / folder.relative_to(self.home)
            if old.is_dir():
                os.replace(old, self.home.with_name(f'old-{number}'))
        if self.home.is_dir():
            move_into(self.home, self.datapath)


@contextlib.contextmanager
def staged(datapath: Path, name: str) -> Iterator[Stage]:
    """
    Give a stage for one folder of the zoo; whatever happens, the stage is gone after.
    """
    folder = under_way(datapath) / (STAGE + re.sub(r'\W', '_', name))
    with held(folder):
        sweep(folder.parent)
        _empty(folder)
        stage = Stage(folder / 'home', datapath)
        try:
            stage.home.mkdir()
            stage.mark_what_is_built()
            yield stage
        finally:
            _empty(folder)


def sweep(folder: Path) -> None:
    """
    Remove the stages of processes that were killed.
    """
    for stage in folder.glob(f'{STAGE}*'):
        with contextlib.suppress(OSError):
            handle = os.open(stage, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(stage)
            finally:
                os.close(handle)


def _empty(folder: Path) -> None:
    for entry in folder.iterdir():
        shutil.rmtree(entry)
