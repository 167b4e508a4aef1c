"""
One file from an address: resumed, checked, and never taken for what it is not.

What has come of it lies in a folder of its own (``data``, ``about.json``) until the
caller takes it away, so that a killed download goes on where it was.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import requests
from tqdm import tqdm

from parlai_ext.core.errors import UserError
from parlai_ext.systems.fetch.answers import (
    LIMITS,
    Limits,
    NoContact,
    Trouble,
    answer,
    chunks,
    printable,
)
from parlai_ext.systems.fetch.archives import SPARE
from parlai_ext.systems.fetch.lock import Entry
from parlai_ext.systems.fetch.partial import Partial

RANGE = re.compile(r'bytes (\d+)-\d+/(\d+)')
MAGIC = {
    ('.tgz', '.gz'): (b'\x1f\x8b', 'gzip'),
    ('.zip',): (b'PK', 'zip'),
    ('.bz2',): (b'BZh', 'bzip2'),
    ('.xz',): (b'\xfd7zXZ', 'xz'),
}
PAGE = re.compile(rb'\s*<(!doctype|html|head|body|\?xml|error)', re.IGNORECASE)


class Refused(UserError):
    """
    What came is not what was asked for; it is removed.
    """


class Unreachable(UserError):
    """
    No answer at all from there: no network, or no such host.
    """


def fetch(
    url: str,
    folder: Path,
    *,
    size_known: bool = False,
    progress: bool = True,
    limits: Limits = LIMITS,
) -> Entry:
    """
    Bring the file to ``folder/data``; what is there of it does not travel again.

    :param folder: held by this process alone; it serves this address only.
    :param size_known: a hash will tell whether it is whole, if the server does not.
    :raises Refused: when it is a web page, say, instead of the archive.
    :raises Unreachable: when there is no answer at all.
    :raises UserError: when it cannot be had; what came stays for the next time.
    """
    partial = Partial(folder)
    idle, met, furthest = 0, False, partial.size()
    while True:
        try:
            entry = _go_on(url, partial, size_known, progress, limits)
            _look_at(url, partial)
            return entry
        except Refused:
            partial.discard()
            raise
        except Trouble as e:
            if isinstance(e, NoContact) and not met:
                raise Unreachable(f'{url} cannot be reached (no network?)') from None
            met = True
            idle = 0 if partial.size() - furthest >= limits.least else idle + 1
            furthest = max(furthest, partial.size())
            if idle >= limits.tries:
                raise UserError(f'{url} {e}{_left(partial)}') from None
            time.sleep(limits.pause * 2 ** max(idle - 1, 0))


def _left(partial: Partial) -> str:
    size = partial.size()
    return f'; another run goes on after {size:,} bytes' if size else ''


def _go_on(
    url: str, partial: Partial, size_known: bool, progress: bool, limits: Limits
) -> Entry:
    """
    Ask once for what is still missing, and write it.
    """
    about, have = partial.about(), partial.size()
    if have and about.get('length') == have:
        return _whole(partial, partial.sha256().hexdigest())
    if not about.get('length') or not _validator(about) or have > about['length']:
        partial.discard()
        have = 0
    with requests.Session() as session:
        response = answer(session, url, _headers(about, have), limits)
        with response:
            have = _agreed(url, response, partial, have, size_known)
            return _write(url, response, partial, have, progress, limits)


def _headers(about: Mapping[str, Any], have: int) -> dict[str, str]:
    """
    Return what to ask with: the bytes as they are, and only those that are missing.
    """
    headers = {'Accept-Encoding': 'identity'}
    if have:
        headers |= {'Range': f'bytes={have}-', 'If-Range': _validator(about)}
    return headers


def _validator(about: Mapping[str, Any]) -> str:
    """
    Return what tells one version of the file from another; empty when nothing does.
    """
    etag = str(about.get('etag') or '')
    weak = etag.startswith('W/')  # not for byte ranges: RFC 9110, 13.1.5
    return etag if etag and not weak else str(about.get('modified') or '')


def _agreed(
    url: str,
    response: requests.Response,
    partial: Partial,
    have: int,
    size_known: bool,
) -> int:
    """
    Return how many of the bytes here stay, given what the server answers with.
    """
    status = response.status_code
    if status == 206 and have and _goes_on(response, partial.about(), have):
        return have
    if status in (206, 416):
        partial.discard()
        raise Trouble('has changed meanwhile')
    if status in (408, 425, 429) or status >= 500:
        raise Trouble(f'answers {status} {printable(response.reason)}')
    if status != 200:
        raise UserError(f'{url} answers {status} {printable(response.reason)}')
    headers = response.headers
    length = headers.get('Content-Length', '')
    chunked = 'chunked' in headers.get('Transfer-Encoding', '').lower()
    if not length.isdecimal() and not chunked and not size_known:
        raise Refused(f'{url} does not say how long it is: no way to know it is whole')
    partial.discard()
    partial.note(
        {
            'url': url,
            'etag': headers.get('ETag'),
            'modified': headers.get('Last-Modified'),
            'length': int(length) if length.isdecimal() and not chunked else None,
        }
    )
    return 0


def _goes_on(response: requests.Response, about: Mapping[str, Any], have: int) -> bool:
    """
    Tell whether a partial answer continues the very file that is here in part.
    """
    found = RANGE.fullmatch(response.headers.get('Content-Range', ''))
    if not found or [int(n) for n in found.groups()] != [have, about['length']]:
        return False
    headers = {'etag': 'ETag', 'modified': 'Last-Modified'}
    return all(
        response.headers.get(name, about[key]) == about[key]
        for key, name in headers.items()
    )


def _write(
    url: str,
    response: requests.Response,
    partial: Partial,
    have: int,
    progress: bool,
    limits: Limits,
) -> Entry:
    """
    Write what comes after the bytes that are here.
    """
    length = partial.about().get('length')
    room = have + shutil.disk_usage(partial.folder).free - SPARE
    if (length or 0) > room:
        raise UserError(
            f'{url} needs {length:,} bytes; {partial.folder} has room for {room:,}'
        )
    digest = partial.sha256() if have else hashlib.sha256()
    bar = _bar(url, have, length, progress)
    with open(partial.data, 'ab') as file, bar:
        for chunk in chunks(response, limits):
            file.write(chunk)
            digest.update(chunk)
            bar.update(len(chunk))
            if file.tell() > room:
                raise Refused(f'{url} goes on and on; {room:,} bytes filled the disk')
        file.flush()
        os.fsync(file.fileno())
    size = partial.size()
    if length is not None and size != length:
        raise Trouble(f'ends after {size:,} of {length:,} bytes')
    return _whole(partial, digest.hexdigest())


def _bar(url: str, have: int, length: int | None, progress: bool) -> Any:
    """
    Return a bar of bytes, rate and time left; a log gets a line of it now and then.
    """
    return tqdm(
        desc='/'.join(url.rsplit('/', 2)[1:]),
        total=length,
        initial=have,
        unit='B',
        unit_scale=True,
        unit_divisor=1024,
        disable=not progress,
        mininterval=0.5 if sys.stderr.isatty() else 10,
    )


def _whole(partial: Partial, sha256: str) -> Entry:
    size = partial.size()
    partial.note({**partial.about(), 'length': size})
    return Entry(sha256, size)


def _look_at(url: str, partial: Partial) -> None:
    """
    Refuse what is not of the kind that its name says: an error page, most often.
    """
    with open(partial.data, 'rb') as file:
        head = file.read(512)
    name = url.partition('?')[0].lower()
    page = bool(PAGE.match(head.removeprefix(b'\xef\xbb\xbf')))
    what = ' but a web page' if page else ''
    for suffixes, (magic, kind) in MAGIC.items():
        if name.endswith(suffixes):
            if not head.startswith(magic):
                raise Refused(f'{url} gives no {kind} file{what}; it was removed')
            return
    if page and not name.endswith(('.html', '.htm', '.xml')):
        raise Refused(f'{url} gives a web page, not the file; it was removed')
    if not head:
        raise Refused(f'{url} gives an empty file')
