"""
Unpacking of downloaded archives: the whole archive inside its target, or nothing.

Files and folders are all that a model or a data set needs; links and devices are
refused, as ParlAI's own unpacking refuses them. No file is written twice, and the
number of members and the bytes that come out of an archive are limited.
"""

import bz2
import errno
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
from functools import partial
from pathlib import Path
from typing import IO, Any

from parlai_ext.core import UserError, first_line
from parlai_ext.files import open_zip
from parlai_ext.store import file_named_in_errors

MAX_MEMBERS = 100_000
MAX_RATIO = 200  # texts shrink to a tenth, weights hardly; zeros to a thousandth
ALWAYS_ALLOWED = 64 * 2**20  # unpacked bytes that need no look at the ratio
SPARE_DISK = 64 * 2**20  # bytes that stay free on the disk
COMPRESSED: tuple[tuple[bytes, Any], ...] = (  # first bytes, and what opens the file
    (b'\x1f\x8b', gzip.open),
    (b'BZh', bz2.open),
    (b'\xfd7zXZ', lzma.open),
    (b'', partial(open, mode='rb')),
)
NOT_INSIDE = re.compile(r'/|[A-Za-z]:|(.*/)?\.\.(/|$)|.*[\\\x00-\x1f\x7f]', re.DOTALL)
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
)
BAD_PATH = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)

# a member's name, and its content; `None` for a folder
Member = tuple[str, IO[bytes] | None]


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
    # '.zip' is how ParlAI's `untar` tells the two kinds apart
    if '.zip' in archive.name or archive.suffix == '.whl':
        unpack_zip(archive, target)
    else:
        _unpack_members(archive, target, _tar_members(archive, target, flatten))


def unpack_zip(archive: Path, target: Path, *, is_durable: bool = True) -> None:
    """
    Unpack a zip file, whatever its name, into a folder: all of it, or nothing.

    :param is_durable: each file is on the disk before the next one is written; a
        folder that goes with the process needs none of it.
    :raises BadArchive: naming the member that is not to be trusted.
    """
    _unpack_members(archive, target, _zip_members(archive, target), is_durable)


def unpack_gzip(archive: Path, target: Path) -> None:
    """
    Expand a compressed file to the file ``target``, whole or not at all.
    """
    folder = target.parent

    def only_member() -> Iterator[Member]:
        with gzip.open(archive) as file:
            yield target.name, ByteLimit(archive, folder).applied_to(file)

    _unpack_members(archive, folder, only_member())


def _unpack_members(
    archive: Path, target: Path, members: Iterator[Member], is_durable: bool = True
) -> None:
    """
    Unpack members; what is wrong with the archive is one line that names it.
    """
    with fresh_folder(target / f'.{archive.name}.unpacked') as unpacked:
        try:
            for name, content in members:
                place = unpacked / name
                if content is None:
                    place.mkdir(parents=True, exist_ok=True)
                    continue
                place.parent.mkdir(parents=True, exist_ok=True)
                with file_named_in_errors(place), open(place, 'xb') as file:
                    shutil.copyfileobj(content, file)
                    if is_durable:
                        os.fsync(file.fileno())
        except BadArchive as e:
            raise BadArchive(f'{archive.name}: {e}') from None
        except DAMAGE as e:
            raise BadArchive(f'{archive.name} is damaged: {first_line(e)}') from None
        except OSError as e:
            if e.errno not in BAD_PATH:  # the disk's trouble, not the archive's
                raise
            named = Path(e.filename).name[:200]
            raise BadArchive(
                f'{archive.name}: {named!r} is there twice, or its name is too long'
            ) from None
        move_into(unpacked, target)


@contextmanager
def fresh_folder(folder: Path) -> Iterator[Path]:
    """
    Make a folder, empty also where a process that was killed has left it, and remove it
    at the end with all that is in it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def move_into(source: Path, target: Path) -> None:
    """
    Move the content of a folder into another: folders are merged, files replaced.

    Each ``.built`` comes last, because it tells ParlAI that the rest is there.

    :raises UserError: before anything is moved, when a file would have to take the
        place of a folder, or a folder that of a file.
    """
    entries = sorted(source.rglob('*'), key=lambda p: (p.name == '.built', p))
    places = [(target / p.relative_to(source), p) for p in (source, *entries)]
    for place, path in places:
        if os.path.lexists(place) and place.is_dir() != path.is_dir():
            kind = 'folder' if path.is_dir() else 'file'
            raise UserError(f'{place} is in the way of a {kind} of the download')
    for place, path in places:
        if path.is_dir():
            place.mkdir(parents=True, exist_ok=True)
        else:
            os.replace(path, place)


class ByteLimit:
    """
    Limits the bytes that come out of one archive, over all files read from it.
    """

    def __init__(self, archive: Path, target: Path):
        free = shutil.disk_usage(target).free - SPARE_DISK
        ratio = MAX_RATIO * archive.stat().st_size
        self.left = self.allowed = min(free, max(ALWAYS_ALLOWED, ratio))

    def applied_to(self, file: Any) -> Any:
        """
        Return a file that gives the same bytes, and raises when they are too many.
        """
        self.file = file
        return self

    def read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.left -= len(data)
        if self.left < 0:
            raise BadArchive(
                f'more than {self.allowed:,} bytes come out of it (allowed: what the '
                f'disk has free, and at most {MAX_RATIO} times its size)'
            )
        return data


def _tar_members(archive: Path, target: Path, flatten: bool) -> Iterator[Member]:
    with open(archive, 'rb') as file:
        start = file.read(6)
    open_file = next(opener for first, opener in COMPRESSED if start.startswith(first))
    with open_file(archive) as file:
        # the limit holds for headers too: a "name" may have gigabytes
        limited = ByteLimit(archive, target).applied_to(file)
        with tarfile.open(fileobj=limited, mode='r|') as tar:
            for number, member in enumerate(tar):
                is_file = member.isreg() and not member.issparse()
                if number >= MAX_MEMBERS:
                    raise BadArchive(f'more than {MAX_MEMBERS:,} members')
                _check_member(member.name, is_file or member.isdir())
                name = os.path.basename(member.name) if flatten else member.name
                if is_file:
                    yield name, tar.extractfile(member)
                elif not flatten:
                    yield name, None
        while limited.read(2**16):  # so that gzip compares its checksum
            pass


def _zip_members(archive: Path, target: Path) -> Iterator[Member]:
    limit = ByteLimit(archive, target)
    with open_zip(archive, MAX_MEMBERS) as opened:
        for info in opened.infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            is_usual = kind in (0, stat.S_IFREG, stat.S_IFDIR)
            # `filename` ends before the first NUL
            _check_member(info.orig_filename, is_usual)
            if info.is_dir():
                yield info.filename, None
            else:
                with opened.open(info) as file:
                    yield info.filename, limit.applied_to(file)


def _check_member(name: str, is_usual: bool) -> None:
    """
    Refuse a member that is a link or a device, or outside the target.
    """
    if NOT_INSIDE.match(name):
        raise BadArchive(f'{name[:200]!r} is no plain path inside the target')
    if not is_usual:
        raise BadArchive(f'{name[:200]!r} is neither a file nor a folder')
