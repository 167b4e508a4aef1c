"""
Writes files that are complete or absent: temporary name, fsync, rename, fsync of the
folder.
"""

import contextlib
import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from parlai_ext.core import UserError, bytes_without_secrets, parse_json

LEFTOVER = '.unfinished'
LOCK = '.lock'  # of a folder, in it
_writer = ''  # stands in the names of this process's unfinished files


def name_writer(name: str) -> None:
    """
    Give the unfinished files of this process names of their own: processes that write
    the same file at once must not write over each other's.
    """
    global _writer
    _writer = f'.{name}'


def write_file(path: Path, data: bytes) -> None:
    """
    Write ``data``, without secrets, to ``path`` and replace a file there, or leave
    everything as it was.
    """
    data = bytes_without_secrets(data)
    make_folder(path.parent)
    unfinished = path.with_name(f'.{path.name}{_writer}{LEFTOVER}')
    with file_named_in_errors(path):
        try:
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            try:
                _write_all(handle, data)
            finally:
                os.close(handle)
            os.replace(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise
        _sync_folder(path.parent)


def write_text(path: Path, text: str) -> None:
    """
    Write a text as `write_file` does, in UTF-8; half a character is spelled out.
    """
    write_file(path, text.encode('utf-8', 'backslashreplace'))


def append_synced(path: Path, end: int, data: bytes) -> None:
    """
    Write ``data`` to a file from byte ``end`` on, and cut off what it had after that.
    """
    with file_named_in_errors(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            os.ftruncate(handle, end)
            os.lseek(handle, end, os.SEEK_SET)
            _write_all(handle, data)
        finally:
            os.close(handle)


@contextlib.contextmanager
def file_named_in_errors(path: Path) -> Iterator[None]:
    """
    Add the file's name to an error of the disk, which lacks it for an open file.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def _write_all(handle: int, data: bytes) -> None:
    """
    Write all of ``data`` to an open file, and to the disk itself.
    """
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(handle, unwritten) :]
    os.fsync(handle)


def _sync_folder(path: Path) -> None:
    """
    Make the names in a folder durable, where the file system can.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot
            raise
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """
    Make a folder and those above it, and make their names durable.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    if not path.is_dir():
        raise UserError(f'{path} is a file; a folder is needed there')
    _sync_folder(path.parent)


def remove_leftovers(root: Path) -> None:
    """
    Remove the unfinished files of killed runs.
    """
    for folder, _, names in os.walk(root):
        for name in names:
            if name.startswith('.') and name.endswith(LEFTOVER):
                os.unlink(os.path.join(folder, name))


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """
    Hold the lock file ``path``, in a folder that is made if need be.

    The operating system frees the lock when its process ends for any reason. The file
    names that process; it is empty while nobody holds the lock.

    :raises UserError: at once, if another process holds it.
    """
    make_folder(path.parent)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(_refusal(path)) from None
        except OSError as error:  # some network file systems have none
            raise UserError(
                f'{path} cannot be locked: {error.strerror}; use a --run-dir on '
                'another file system'
            ) from None
        with file_named_in_errors(path):
            os.ftruncate(handle, 0)
            holder = {'pid': os.getpid(), 'host': socket.gethostname()}
            os.pwrite(handle, json.dumps(holder).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


@contextlib.contextmanager
def staged_folder(target: Path, *, becomes_target: bool = True) -> Iterator[Path]:
    """
    Yield an empty folder beside ``target``, which takes its name when all inside is
    done. It is gone if that fails; what a killed process left of it is removed first.

    :param becomes_target: False where its files are moved one by one.
    :raises UserError: while another process writes to it.
    """
    folder = target.absolute().parent / f'.{target.name}{LEFTOVER}'
    lock = folder / LOCK
    with locked(lock):
        for left in folder.iterdir():
            if left != lock:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield folder
            if becomes_target:
                os.rename(folder, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _refusal(path: Path) -> str:
    """
    Return the message that names the holder of the lock, if the file does.
    """
    try:
        holder = parse_json(path.read_bytes())
        who = f'process {holder["pid"]} on {holder["host"]}'
    except (OSError, ValueError, KeyError, TypeError):
        who = 'another process'
    return f'{path.parent} is in use by {who}; wait for it or end it, then run again'
