"""
Unpacking of downloaded archives: the whole archive inside its target, or nothing.

Files and folders are all that a model or a data set needs. Links and devices are
refused, as ParlAI's own unpacking refuses them; the number and the size of the members
are limited.
"""

from __future__ import annotations

import gzip
import lzma
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, first_line

MAX_MEMBERS = 100_000
MAX_RATIO = 200  # texts shrink to a tenth, weights hardly; zeros to a thousandth
ALWAYS_ALLOWED = 64 * 2**20  # unpacked bytes that need no look at the ratio
SPARE_DISK = 64 * 2**20  # bytes that stay free on the disk
MAX_HEADER = 2**20  # a longer "name" only serves to fill the memory
MAX_PADDING = 16 * 2**20  # bytes after the end of a tar file
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error),
    *(lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError),
)


class BadArchive(UserError):
    """
    An archive that is damaged or not to be trusted.
    """


def unpack(archive: Path, target: Path, *, flatten: bool = False) -> None:
    """
    Unpack an archive into a folder: all of it, or nothing.

    :param flatten: leave out the folders of a tar file, as ParlAI's `flatten_tar`.
    :raises BadArchive: naming the member that is not to be trusted.
    """
    unpacked = target / f'.{archive.name}.unpacked'
    shutil.rmtree(unpacked, ignore_errors=True)  # of a process that was killed
    try:
        unpacked.mkdir(parents=True)
        with _damage_named(archive):
            # build_data.py:260 tells the two kinds apart by the name
            if '.zip' in archive.name:
                _extract_zip(archive, unpacked)
            else:
                _extract_tar(archive, unpacked, flatten)
        for path in unpacked.rglob('*'):
            _flush(path)
        move_into(unpacked, target)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def unpack_gzip(archive: Path, target: Path) -> None:
    """
    Expand a compressed file to the file ``target``, whole or not at all.
    """
    unpacked = target.with_name(f'.{target.name}.unpacked')
    limits = _Limits(archive, target.parent)
    try:
        with (
            _damage_named(archive),
            gzip.open(archive) as source,
            open(unpacked, 'wb') as file,
        ):
            while chunk := source.read(2**20):
                limits.add(len(chunk))
                file.write(chunk)
        os.replace(unpacked, target)
    finally:
        unpacked.unlink(missing_ok=True)


def move_into(source: Path, target: Path) -> None:
    """
    Move the content of a folder into another: folders are merged, files replaced.

    Each ``.built`` comes last, because it tells ParlAI that the rest is there.

    :raises UserError: before anything is moved, when a file would have to take the
        place of a folder, or a folder that of a file.
    """
    entries = sorted(source.rglob('*'), key=lambda p: (p.name == '.built', p))
    places = [(target, source)]
    places += [(target / path.relative_to(source), path) for path in entries]
    for place, path in places:
        if place.exists() and place.is_dir() != path.is_dir():
            here, there = ('folder', 'file') if place.is_dir() else ('file', 'folder')
            raise UserError(f'{place} is a {here}, and a {there} in the download')
    for place, path in places:
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            os.replace(path, place)


@contextmanager
def _damage_named(archive: Path) -> Iterator[None]:
    try:
        yield
    except BadArchive:
        raise
    except tarfile.FilterError as e:
        raise BadArchive(f'{archive.name}: {first_line(e)}') from None
    except DAMAGE as e:
        raise BadArchive(f'{archive.name} is damaged: {first_line(e)}') from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as e:
        name = Path(e.filename).name
        what = f'{archive.name} has {name!r} both as a file and as a folder'
        raise BadArchive(what) from None


class _Limits:
    """
    Counts the members of an archive and their bytes, and raises when it is too much.
    """

    def __init__(self, archive: Path, target: Path):
        self.archive = archive
        self.size = archive.stat().st_size
        free = shutil.disk_usage(target).free - SPARE_DISK
        self.allowed = min(free, max(ALWAYS_ALLOWED, MAX_RATIO * self.size))
        self.n_bytes = 0
        self.n_members = 0
        self.files: set[str] = set()

    def add_member(
        self, name: str, size: int, is_folder: bool, problem: str | None
    ) -> None:
        """
        Count one member.

        :param problem: what is wrong with its kind, if something is.
        :raises BadArchive: when it is not to be trusted, or one too many.
        """
        problem, path = problem or _name_problem(name), os.path.normpath(name)
        if not problem and path in self.files:
            problem = 'there twice'
        if problem:
            raise BadArchive(f'{self.archive.name}: {name[:200]!r} is {problem}')
        if not is_folder:
            self.files.add(path)
        self.n_members += 1
        if self.n_members > MAX_MEMBERS:
            raise BadArchive(f'{self.archive.name}: more than {MAX_MEMBERS:,} members')
        self.add(size)

    def add(self, size: int) -> None:
        self.n_bytes += size
        if self.n_bytes > self.allowed:
            raise BadArchive(
                f'{self.archive.name} ({self.size:,} bytes) holds at least '
                f'{self.n_bytes:,} bytes; {self.allowed:,} may come out of it (what '
                f'the disk has free, and at most {MAX_RATIO} times its size)'
            )


def _name_problem(name: str) -> str | None:
    """
    Return what is wrong with a member's name; `None` for a plain path inside.
    """
    if name.startswith('/') or re.match('[A-Za-z]:', name):
        return 'an absolute path'
    if '..' in name.split('/'):
        return 'outside the target'
    if '\\' in name or any(ord(c) < 32 or ord(c) == 127 for c in name):
        return 'no plain path (backslash or control characters)'
    if any(len(os.fsencode(part)) > 255 for part in name.split('/')):
        return 'too long a name'
    return None


def _extract_tar(archive: Path, folder: Path, flatten: bool) -> None:
    limits = _Limits(archive, folder)
    with tarfile.open(archive, 'r:*', tarinfo=_ShortHeader) as tar:
        for member in tar:
            if flatten:
                member = member.replace(name=os.path.basename(member.name), deep=False)
                if member.isdir():
                    continue
            problem = _tar_problem(member)
            limits.add_member(member.name, member.size, member.isdir(), problem)
            tar.extract(member, folder, set_attrs=False, filter='data')
        _read_to_the_end(tar)


def _tar_problem(member: tarfile.TarInfo) -> str | None:
    if member.issym() or member.islnk():
        return f'a link (to {member.linkname[:200]!r})'
    return None if member.isreg() or member.isdir() else 'a device'


class _ShortHeader(tarfile.TarInfo):
    """
    A header that does not read gigabytes of "name" into memory.
    """

    LONG = (
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    )

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in self.LONG and self.size > MAX_HEADER:
            raise tarfile.HeaderError(f'a header of {self.size:,} bytes')
        return super()._proc_member(archive)  # type: ignore[misc]


def _read_to_the_end(tar: tarfile.TarFile) -> None:
    """
    Read what follows the last member, so that gzip compares its checksum.
    """
    assert tar.fileobj is not None
    left = MAX_PADDING
    while left > 0 and (chunk := tar.fileobj.read(2**16)):
        left -= len(chunk)
    if left <= 0:
        raise tarfile.ReadError('it goes on after its end')


def _extract_zip(archive: Path, folder: Path) -> None:
    limits = _Limits(archive, folder)
    with zipfile.ZipFile(archive) as opened:
        for info in opened.infolist():
            name, problem = info.orig_filename, _zip_problem(info)
            limits.add_member(name, info.file_size, info.is_dir(), problem)
            opened.extract(info, folder)


def _zip_problem(info: zipfile.ZipInfo) -> str | None:
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        return 'a link'
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return 'a device'
    return 'encrypted' if info.flag_bits & 1 else None


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
