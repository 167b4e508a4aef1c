"""
Download of one file over http: resumed where it stopped, and checked for its kind.

A partly downloaded file is ``file.part`` in a folder of its own, with the version that
the server named in ``file.version``; when all has come, it is renamed to ``file``. So
the next run continues a download that was interrupted or killed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests import exceptions
from tqdm import tqdm

from parlai_ext.core.errors import UserError, printable
from parlai_ext.store.atomic import write_file
from parlai_ext.systems.fetch.archives import SPARE_DISK
from parlai_ext.systems.fetch.lock_file import Entry

CHUNK = 2**18
CONTENT_RANGE = re.compile(r'bytes (\d+)-\d+/(\d+)')
WEB_PAGE = re.compile(rb'\s*<(!doctype|html|head|body|\?xml|error)', re.IGNORECASE)
WEB_SUFFIXES = ('.html', '.htm', '.xml')
FIRST_BYTES = {'.gz': b'\x1f\x8b', '.zip': b'PK', '.bz2': b'BZh', '.xz': b'\xfd7zXZ'}
FIRST_BYTES['.tgz'] = FIRST_BYTES['.gz']
MAX_REDIRECTS = 5


@dataclass(frozen=True)
class DownloadSettings:
    """
    How to download.

    :param lock: the lock file (default: ``parlai_ext.lock.json`` in ``models``).
    :param progress: show a progress bar.
    :param connect: seconds until there is a connection.
    :param stall: seconds in which at least ``least`` bytes must arrive; so the time for
        a whole file is limited too.
    :param tries: attempts in a row that bring fewer than ``least`` bytes.
    :param pause: seconds before the second try; twice as many before each next one.
    """

    lock: Path | None = None
    progress: bool = True
    connect: float = 15.0
    stall: float = 30.0
    least: int = 2**14
    tries: int = 5
    pause: float = 1.0


class _Interrupted(UserError):
    """
    A failure that may pass: worth another try.
    """


class Unreachable(_Interrupted):
    """
    No connection to the server: there is no network, or no such host.
    """


@dataclass(frozen=True)
class FileDownload:
    """
    A download to a folder, which serves one address and one process at a time.
    """

    url: str
    folder: Path
    settings: DownloadSettings = DownloadSettings()

    @property
    def data(self) -> Path:
        """
        The whole file, once it is here.
        """
        return self.folder / 'file'

    @property
    def part(self) -> Path:
        return self.folder / 'file.part'

    @property
    def note(self) -> Path:
        return self.folder / 'file.version'

    def n_bytes(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def remove(self) -> None:
        for path in (self.part, self.note, self.data):
            path.unlink(missing_ok=True)

    def run(self) -> Entry:
        """
        Download what is missing and return the checksum and size of the whole file.

        :raises Unreachable: when no connection comes about.
        :raises UserError: when the file cannot be had. Its part stays for the next run,
            unless it is something else than the file.
        """
        failures, most, connected = 0, self.n_bytes(), False
        while not self.data.is_file():
            try:
                self._request_missing()
            except _Interrupted as e:
                if isinstance(e, Unreachable) and not connected:
                    raise
                progressed = self.n_bytes() - most >= self.settings.least
                failures = 0 if progressed else failures + 1
                most = max(most, self.n_bytes())
                if failures >= self.settings.tries:
                    rest = f'; another run continues after {most:,} bytes'
                    raise UserError(f'{e}{rest if most else ""}') from None
                time.sleep(self.settings.pause * 2 ** max(failures - 1, 0))
            connected = True
        with open(self.data, 'rb') as file:
            digest = hashlib.file_digest(file, 'sha256').hexdigest()
        return Entry(digest, self.data.stat().st_size)

    def _request_missing(self) -> None:
        """
        Request the bytes that are missing, once, and append them.
        """
        start, version = self.n_bytes(), self._noted_version()
        headers = {'Accept-Encoding': 'identity'}
        if start and version:
            headers |= {'Range': f'bytes={start}-', 'If-Range': version}
        with requests.Session() as session:
            session.max_redirects = MAX_REDIRECTS
            with self._response(session, headers) as response:
                if response.status_code in (206, 416):
                    size = self._whole_size(response, start, version)
                else:
                    size = self._size(response)
                    self.remove()
                    write_file(self.note, _version(response.headers).encode())
                self._append(response, size)
        self._check_kind()
        os.replace(self.part, self.data)

    def _noted_version(self) -> str:
        """
        Return the version of the part; '' when none is known.
        """
        noted = self.note.read_bytes() if self.note.is_file() else b''
        version = noted.decode('ascii', 'ignore')
        return version if version.isprintable() else ''

    def _whole_size(self, response: requests.Response, start: int, version: str) -> int:
        """
        Return the size of the whole file that a response continues.

        :raises _Interrupted: when it does not continue the part, which is removed.
        """
        sent = CONTENT_RANGE.fullmatch(response.headers.get('Content-Range', ''))
        same_version = _version(response.headers) in ('', version)
        if response.status_code == 206 and sent and same_version:
            first, size = map(int, sent.groups())
            if first == start < size:
                return size
        self.remove()
        raise _Interrupted(f'{self.url} has changed meanwhile')

    def _response(
        self, session: requests.Session, headers: Mapping[str, str]
    ) -> requests.Response:
        """
        Return the server's response, its body unread.

        :raises _Interrupted: when it may work another time.
        :raises UserError: when it will not.
        """
        patience = (self.settings.connect, self.settings.stall)
        options: dict[str, Any] = {'timeout': patience, 'stream': True}
        try:
            response: requests.Response = _within(
                self.settings.connect + 2 * self.settings.stall,
                lambda: session.get(self.url, headers=headers, **options),
            )
        except TimeoutError:
            raise _Interrupted(f'{self.url} does not finish its headers') from None
        except exceptions.SSLError:
            raise UserError(f'{self.url}: its certificate is not accepted') from None
        except (exceptions.ConnectionError, exceptions.Timeout) as e:
            if _never_connected(e):
                what = f'{self.url} cannot be reached (no network?)'
                raise Unreachable(what) from None
            raise _Interrupted(f'{self.url} does not answer') from None
        except exceptions.RequestException as e:  # also a redirect to no http address
            what = f'{self.url} cannot be requested: {printable(str(e))[:200]}'
            raise UserError(what) from None
        for hop in (*response.history, response):
            if self.url.startswith('https:') and not hop.url.startswith('https:'):
                raise UserError(f'{self.url} redirects to {printable(hop.url)[:200]}')
        return response

    def _size(self, response: requests.Response) -> int | None:
        """
        Return the size that a response gives; `None` when it comes in chunks.

        :raises _Interrupted: for a status that may pass.
        :raises UserError: for any other status, or when no size can be known.
        """
        status = response.status_code
        answer = f'{self.url} answers {status} {printable(response.reason or "")[:200]}'
        if status in (408, 425, 429) or status >= 500:
            raise _Interrupted(answer)
        if status != 200:
            raise UserError(answer)
        if 'chunked' in response.headers.get('Transfer-Encoding', '').lower():
            return None
        length = response.headers.get('Content-Length', '')
        if not length.isdecimal():
            raise UserError(f'{self.url} does not say how long it is')
        return int(length)

    def _append(self, response: requests.Response, size: int | None) -> None:
        """
        Append a response's body, as much as the disk has room for.

        :raises _Interrupted: when it ends early, or hardly anything comes.
        """
        start = self.n_bytes()
        room = start + shutil.disk_usage(self.folder).free - SPARE_DISK
        bar = tqdm(
            desc='/'.join(self.url.rsplit('/', 2)[1:]),
            total=size,
            initial=start,
            unit='B',
            unit_scale=True,
            unit_divisor=1024,
            disable=not self.settings.progress,
            mininterval=0.5 if sys.stderr.isatty() else 10,
        )
        # read1 returns what there is; without it (urllib3 1) a drip is not seen as one
        read = getattr(response.raw, 'read1', response.raw.read)
        since, before = time.monotonic(), start
        with open(self.part, 'ab') as file, bar:
            while max(size or 0, file.tell()) <= room:
                try:
                    chunk = read(CHUNK, decode_content=False)
                except (urllib3.exceptions.HTTPError, OSError) as e:
                    what = f'{self.url} breaks off ({type(e).__name__})'
                    raise _Interrupted(what) from None
                if not chunk:
                    break
                file.write(chunk)
                bar.update(len(chunk))
                if time.monotonic() - since > self.settings.stall:
                    if file.tell() - before < self.settings.least:
                        raise _Interrupted(f'{self.url} hardly sends anything')
                    since, before = time.monotonic(), file.tell()
            else:
                if not start:
                    self.remove()
                what = f'needs more than {room:,} bytes, for which {self.folder}'
                raise UserError(f'{self.url} {what} has room')
            file.flush()
            os.fsync(file.fileno())
        if size is not None and self.n_bytes() != size:
            what = f'ends after {self.n_bytes():,} of {size:,} bytes'
            raise _Interrupted(f'{self.url} {what}')

    def _check_kind(self) -> None:
        """
        Remove and refuse a file that is not what its name says: mostly an error page.
        """
        with open(self.part, 'rb') as file:
            head = file.read(512)
        suffix = Path(urlsplit(self.url).path.lower()).suffix
        is_page = WEB_PAGE.match(head.removeprefix(b'\xef\xbb\xbf'))
        if is_page and suffix not in WEB_SUFFIXES:
            what = 'a web page'
        elif not head:
            what = 'an empty file'
        elif not head.startswith(FIRST_BYTES.get(suffix, b'')):
            what = f'something else than a {suffix} file'
        else:
            return
        self.remove()
        raise UserError(f'{self.url} gives {what}, which was removed')


def _within(seconds: float, function: Callable[[], Any]) -> Any:
    """
    Return what a function returns, or raise `TimeoutError` after so many seconds.

    The timeouts of requests begin anew with every byte of a header.
    """
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except Exception as e:  # it belongs to the caller's thread
            future.set_exception(e)

    threading.Thread(target=work, daemon=True).start()
    return future.result(seconds)


def _never_connected(error: Exception) -> bool:
    reason = getattr(error.args[0] if error.args else None, 'reason', None)
    unmet = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ProxyError)
    return isinstance(error, exceptions.ConnectTimeout) or isinstance(reason, unmet)


def _version(headers: Mapping[str, str]) -> str:
    """
    Return the header that tells one version of a file from another; '' without one.

    A weak ETag is not for ranges of bytes: RFC 9110, 13.1.5.
    """
    etag = headers.get('ETag', '')
    is_strong = etag and not etag.startswith('W/')
    return etag if is_strong else headers.get('Last-Modified', '')
