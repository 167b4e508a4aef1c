"""
A zip of others, whose members are counted and measured before they are read.
"""

import os
import zipfile
from functools import partial
from pathlib import Path
from typing import IO, Any

MOST_MEMBERS = 100_000
LONGEST_ENTRY = 1_000  # bytes of a member's entry in the directory, on average
MEMBER = b'PK\x01\x02'  # with which its entry begins
LARGEST_MEMBER = 2**29  # bytes
CHUNK = 4096  # bytes of a member unpacked at once: a few may unpack to very many
ZSTANDARD = 93  # the number of this compression
ZIP64 = 76  # bytes of the records that may stand after the directory

# finds the end of the directory, in zips of more than 4 GiB and behind a comment, too
_end_of: Any = vars(zipfile)['_EndRecData']


def open_zip(file: str | Path | IO[bytes], most: int = MOST_MEMBERS) -> zipfile.ZipFile:
    """
    Open a zip to be read.

    Python makes an object of each member as soon as it opens a zip. So the entries are
    counted first, in the bytes of the directory: the number that the zip gives itself
    may be another one.

    :param most: how many members it may have.
    :raises zipfile.BadZipFile: for what is no zip, or has more.
    """
    if isinstance(file, str | Path):
        with open(file, 'rb') as opened:
            _check_members(opened, most)
    else:
        start = file.tell()
        _check_members(file, most)
        file.seek(start)
    return zipfile.ZipFile(file)


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """
    Return the bytes of a member.

    :raises zipfile.BadZipFile: for one that is too large, is damaged, or is compressed
        in a way that is not known here.
    """
    info = archive.getinfo(name)
    if info.file_size > LARGEST_MEMBER:
        raise zipfile.BadZipFile(f'{name} has more than {LARGEST_MEMBER:,} bytes')
    try:
        if info.compress_type == ZSTANDARD:
            import zipfile_zstd  # noqa: F401 (it teaches zipfile to read it)
        with archive.open(info) as file:  # which gives no more than its `file_size`
            return b''.join(iter(partial(file.read, CHUNK), b''))
    except ImportError:
        problem = 'it is compressed by Zstandard; install zipfile-zstd with pip'
        raise zipfile.BadZipFile(f'{name}: {problem}') from None
    except Exception as error:  # each compression has its own
        raise zipfile.BadZipFile(f'{name}: {error}') from None


def _check_members(file: IO[bytes], most: int) -> None:
    end = _end_of(file)
    if end is None:
        return  # zipfile says so
    size, place = end[5], end[9]
    if size <= most * LONGEST_ENTRY:
        file.seek(max(0, place - size - ZIP64), os.SEEK_SET)
        if file.read(size + ZIP64).count(MEMBER) <= most:
            return
    raise zipfile.BadZipFile(f'more than {most:,} members')
