"""
A folder that several machines must see: a token in it proves that they do.
"""

import fcntl
import os
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.engines.engine import WorkerDiffers
from parlai_ext.store.atomic import LEFTOVER, make_folder

TOKEN = f'.token{LEFTOVER}'
VISIBLE_SECONDS = 60.0  # network file systems keep old listings for up to a minute


@dataclass(frozen=True)
class Token:
    """
    A small file with random content.
    """

    path: str
    content: str

    def check(self) -> None:
        """
        Refuse to go on where the file is not seen.

        :raises WorkerDiffers: names its folder.
        """
        try:
            seen = Path(self.path).read_text(encoding='ascii')
        except (OSError, ValueError):
            seen = ''
        if seen != self.content:
            raise WorkerDiffers(
                f'it does not see {Path(self.path).parent}: that folder must be on '
                'storage that all machines share, under the same path'
            )


@contextmanager
def token_in(folder: Path) -> Iterator[Token]:
    """
    Write a token into a folder, and remove it at the end. One that a killed process
    leaves is removed by `remove_abandoned_tokens`.
    """
    make_folder(folder)
    content = secrets.token_hex(16)
    path = folder.resolve() / f'.{content[:8]}{TOKEN}'
    handle = _create_locked(path)
    try:
        os.write(handle, content.encode('ascii'))
        yield Token(str(path), content)
    finally:
        path.unlink(missing_ok=True)
        os.close(handle)


def remove_abandoned_tokens(folder: Path) -> None:
    """
    Remove the tokens of processes that were killed: nobody has them locked.
    """
    for path in folder.glob(f'.*{TOKEN}'):
        with suppress(OSError), open(path, 'rb') as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _create_locked(path: Path) -> int:
    """
    Create a file and open it, locked as long as it is open.
    """
    while True:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if path.exists():
            return handle
        os.close(handle)  # it was taken for an abandoned one before it was locked


def wait_for_files(paths: Iterable[Path], seconds: float = VISIBLE_SECONDS) -> None:
    """
    Wait until files that another machine has written are seen here.

    :raises UserError: names the first that does not appear.
    """
    deadline = time.monotonic() + seconds
    for path in paths:
        while not path.exists():
            if time.monotonic() > deadline:
                raise UserError(
                    f'{path} was written by a worker and is not seen here after '
                    f'{seconds:g} s: is the folder on storage that all machines share?'
                )
            time.sleep(0.2)
