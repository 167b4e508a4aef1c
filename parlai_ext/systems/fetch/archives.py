"""
Archives from elsewhere: every member is looked at before anything is written.

Files and folders inside the target are all that a model or a data set needs; links and
devices are refused, as ParlAI's own unpacking refuses them.
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
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from parlai_ext.core.errors import UserError, first_line
from parlai_ext.systems.fetch.moving import move_into

MEMBERS = 100_000
RATIO = 200  # texts come to a tenth, weights hardly shrink; zeros come to a thousandth
ALWAYS_FINE = 64 * 2**20
SPARE = 64 * 2**20  # what is left free on the disk
HEADER = 2**20  # a name longer than this is an attack on the memory
AFTER = 16 * 2**20  # padding after the end of a tar file
DAMAGE = (
    *(tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error),
    *(lzma.LZMAError, EOFError, NotImplementedError, RuntimeError, ValueError),
)


class BadArchive(UserError):
    """
    The archive itself is damaged or not to be trusted.
    """


@dataclass(frozen=True)
class Member:
    """
    One file or folder of an archive, below the target.
    """

    parts: tuple[str, ...]
    size: int
    is_folder: bool
    info: Any


def unpack(archive: Path, target: Path, *, flatten: bool = False) -> None:
    """
    Unpack into ``target`` all that is in the archive, or nothing.

    :param flatten: leave out the folders of the archive, as ParlAI's `flatten_tar`.
    :raises BadArchive: naming the member that is not to be trusted.
    """
    unpacked = target / f'.{archive.name}.unpacked'
    shutil.rmtree(unpacked, ignore_errors=True)
    try:
        with _damage_named(archive), _opened(archive) as opened:
            members = list(_checked(opened, archive, target, flatten))
            unpacked.mkdir(parents=True)
            for member in members:
                _write(opened, member, unpacked)
        move_into(unpacked, target)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def unpack_gzip(archive: Path, target: Path) -> None:
    """
    Expand a compressed file to the file ``target``, whole or not at all.
    """
    unpacked = target.with_name(f'.{target.name}.unpacked')
    try:
        room, written = _room(archive, target.parent), 0
        with (
            _damage_named(archive),
            gzip.open(archive) as source,
            open(unpacked, 'wb') as file,
        ):
            while chunk := source.read(2**20):
                written += len(chunk)
                if written > room:
                    raise BadArchive(_too_big(archive, written, room))
                file.write(chunk)
        os.replace(unpacked, target)
    finally:
        unpacked.unlink(missing_ok=True)


@contextmanager
def _damage_named(archive: Path) -> Iterator[None]:
    try:
        yield
    except BadArchive:
        raise
    except DAMAGE as e:
        raise BadArchive(f'{archive.name} is damaged: {first_line(e)}') from None


def _opened(archive: Path) -> tarfile.TarFile | zipfile.ZipFile:
    # build_data.py:260 tells them apart in this way
    if '.zip' in archive.name:
        return zipfile.ZipFile(archive)
    return tarfile.open(archive, 'r:*', tarinfo=_Header)


class _Header(tarfile.TarInfo):
    """
    A header that does not read gigabytes of "name" into memory.
    """

    LONG = (
        *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
        *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    )

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        if self.type in self.LONG and self.size > HEADER:
            raise tarfile.HeaderError(f'a header of {self.size:,} bytes')
        return super()._proc_member(archive)  # type: ignore[misc]


def _checked(
    opened: tarfile.TarFile | zipfile.ZipFile,
    archive: Path,
    target: Path,
    flatten: bool,
) -> Iterator[Member]:
    """
    Yield the members, each fit to be written if all are.
    """
    room, total = _room(archive, target), 0
    files: set[tuple[str, ...]] = set()
    folders: set[tuple[str, ...]] = set()
    for count, info in enumerate(_infos(opened), 1):
        member = _member(info, archive, flatten and isinstance(opened, tarfile.TarFile))
        total += member.size
        if count > MEMBERS:
            raise BadArchive(f'{archive.name} has more than {MEMBERS:,} members')
        if total > room:
            raise BadArchive(_too_big(archive, total, room))
        folders.update(member.parts[:n] for n in range(len(member.parts)))
        if member.is_folder:
            folders.add(member.parts)
        elif member.parts in files:
            raise BadArchive(f'{archive.name} has {_shown(info)} twice')
        else:
            files.add(member.parts)
        yield member
    for both in files & folders:
        raise BadArchive(f'{archive.name} has {"/".join(both)!r} as file and as folder')
    _read_to_the_end(opened)


def _infos(opened: tarfile.TarFile | zipfile.ZipFile) -> Iterator[Any]:
    yield from opened if isinstance(opened, tarfile.TarFile) else opened.infolist()


def _read_to_the_end(opened: tarfile.TarFile | zipfile.ZipFile) -> None:
    """
    Let the compression's own checksum, which stands at the end, be looked at.
    """
    if isinstance(opened, tarfile.TarFile) and opened.fileobj is not None:
        left = AFTER
        while left > 0 and (chunk := opened.fileobj.read(2**16)):
            left -= len(chunk)
        if left <= 0:
            raise tarfile.ReadError('it goes on after its end')


def _member(info: Any, archive: Path, flatten: bool) -> Member:
    """
    Return one member, its name split.

    :raises BadArchive: when it is no file or folder, or would land outside.
    """
    tar = isinstance(info, tarfile.TarInfo)
    name = info.name if tar else info.orig_filename
    wrong = _wrong_kind(info) or _wrong_name(name)
    if wrong:
        raise BadArchive(f'{archive.name} has {_shown(info)}, which is {wrong}')
    is_folder = info.isdir() if tar else info.is_dir()
    parts = tuple(part for part in name.split('/') if part not in ('', '.'))
    if not parts and not is_folder:
        raise BadArchive(f'{archive.name} has a file without a name')
    size = 0 if is_folder else info.size if tar else info.file_size
    return Member(parts[-1:] if flatten else parts, size, is_folder, info)


def _wrong_kind(info: Any) -> str | None:
    """
    Say what a member is when it is neither file nor folder.
    """
    if isinstance(info, tarfile.TarInfo):
        if info.issym() or info.islnk():
            return f'a link (to {info.linkname[:200]!r})'
        return None if info.isreg() or info.isdir() else 'a device'
    mode = info.external_attr >> 16
    if stat.S_ISLNK(mode):
        return 'a link'
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        return 'a device'
    return 'encrypted' if info.flag_bits & 1 else None


def _wrong_name(name: str) -> str | None:
    """
    Say what is wrong with a name: it leaves the target, or some system's rules.
    """
    if name.startswith('/') or re.match('[A-Za-z]:', name):
        return 'an absolute path'
    parts = name.split('/')
    if '..' in parts:
        return 'outside the target'
    if '\\' in name:
        return 'a path of another system'
    if any(ord(c) < 32 or ord(c) == 127 or '\ud800' <= c <= '\udfff' for c in name):
        return 'no name (control characters)'
    if any(len(part.encode()) > 255 for part in parts):
        return 'too long a name'
    return None


def _shown(info: Any) -> str:
    name = info.name if isinstance(info, tarfile.TarInfo) else info.orig_filename
    return repr(name[:200])


def _room(archive: Path, target: Path) -> int:
    """
    Return how many bytes may come out of an archive.
    """
    near = target
    while not near.exists():
        near = near.parent
    free = shutil.disk_usage(near).free - SPARE
    return min(free, max(ALWAYS_FINE, RATIO * archive.stat().st_size))


def _too_big(archive: Path, total: int, room: int) -> str:
    return (
        f'{archive.name} ({archive.stat().st_size:,} bytes) holds at least {total:,} '
        f'bytes; {room:,} may come out of it (free disk space, and {RATIO} for one)'
    )


def _write(
    opened: tarfile.TarFile | zipfile.ZipFile, member: Member, folder: Path
) -> None:
    """
    Write one checked member below a folder that was empty.
    """
    place = folder.joinpath(*member.parts)
    if member.is_folder:
        place.mkdir(parents=True, exist_ok=True)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    source: IO[bytes] | None
    if isinstance(opened, tarfile.TarFile):
        source = opened.extractfile(member.info)
    else:
        source = opened.open(member.info)
    assert source is not None  # it is a file: `_wrong_kind`
    with source, open(place, 'xb') as file:
        shutil.copyfileobj(source, file, 2**20)
        file.flush()
        os.fsync(file.fileno())
