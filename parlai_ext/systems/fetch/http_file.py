"""
Download of one file over http: resumed where it stopped, and checked for its kind.

A partly downloaded file is ``file.part`` in a folder of its own; ``file.json`` beside
it says what the server told of the whole file. Both stay there until the caller takes
the file, so that the next run continues a download that was interrupted or killed.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests import exceptions
from tqdm import tqdm

from parlai_ext.core.errors import UserError, shown
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


class Unreachable(UserError):
    """
    No connection to the server: there is no network, or no such host.
    """


class WrongFile(UserError):
    """
    The server sent something else than the file; it is removed.
    """


class _Interrupted(Exception):
    """
    A failure that may pass: worth another try.
    """


class _NoConnection(_Interrupted):
    """
    No connection came about.
    """


@dataclass(frozen=True)
class FileDownload:
    """
    A download to a folder, which serves one address and one process at a time.

    :param size_known: a checksum will tell whether the file is complete, if the server
        does not.
    """

    url: str
    folder: Path
    size_known: bool = False
    settings: DownloadSettings = DownloadSettings()

    @property
    def data(self) -> Path:
        return self.folder / 'file.part'

    @property
    def note(self) -> Path:
        return self.folder / 'file.json'

    def n_bytes(self) -> int:
        return self.data.stat().st_size if self.data.is_file() else 0

    def remove(self) -> None:
        self.data.unlink(missing_ok=True)
        self.note.unlink(missing_ok=True)

    def run(self) -> Entry:
        """
        Download what is missing and return the checksum and size of the whole file.

        :raises WrongFile: when the server sends a web page, say, instead of an archive.
        :raises Unreachable: when no connection comes about.
        :raises UserError: when the file cannot be had; its part stays for the next run.
        """
        failures, most = 0, self.n_bytes()
        for attempt in itertools.count():
            try:
                self._request_missing()
                self._check_kind()
                with open(self.data, 'rb') as file:
                    digest = hashlib.file_digest(file, 'sha256').hexdigest()
                return Entry(digest, self.n_bytes())
            except WrongFile:
                self.remove()
                raise
            except _Interrupted as e:
                if isinstance(e, _NoConnection) and attempt == 0:
                    what = f'{self.url} cannot be reached (no network?)'
                    raise Unreachable(what) from None
                progressed = self.n_bytes() - most >= self.settings.least
                failures = 0 if progressed else failures + 1
                most = max(most, self.n_bytes())
                if failures >= self.settings.tries:
                    rest = f'; another run continues after {most:,} bytes'
                    raise UserError(f'{self.url} {e}{rest if most else ""}') from None
                time.sleep(self.settings.pause * 2 ** max(failures - 1, 0))
        raise AssertionError('attempts end above')

    def _request_missing(self) -> None:
        """
        Request the bytes that are missing, once, and append them.
        """
        noted, start = self._read_note(), self.n_bytes()
        if noted and start and noted['size'] == start:
            return
        if not noted or not noted['version'] or not 0 < start < noted['size']:
            self.remove()  # nothing here can be continued with certainty
            noted, start = {}, 0
        headers = {'Accept-Encoding': 'identity'}
        if noted:
            headers |= {'Range': f'bytes={start}-', 'If-Range': noted['version']}
        with _Session() as session, self._response(session, headers) as response:
            if response.status_code in (206, 416):
                if not _continues(response, noted, start):
                    self.remove()
                    raise _Interrupted('has changed meanwhile')
            else:
                size = self._size(response)
                self.remove()
                version = _version(response.headers)
                noted = {'url': self.url, 'version': version, 'size': size}
                self._write_note(noted)
            self._append(response, noted)

    def _read_note(self) -> dict[str, Any]:
        """
        Return what the server told; empty when the note is damaged, or lacks the size.
        """
        try:
            noted = json.loads(self.note.read_bytes())
            types = [type(noted[key]) for key in ('url', 'version', 'size')]
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return noted if types == [str, str, int] and noted['url'] == self.url else {}

    def _write_note(self, noted: Mapping[str, Any]) -> None:
        write_file(self.note, json.dumps(noted, sort_keys=True).encode())

    def _response(
        self, session: requests.Session, headers: Mapping[str, str]
    ) -> requests.Response:
        """
        Return the server's response, its body unread.

        :raises _Interrupted: when it may work another time.
        :raises UserError: when it will not.
        """
        if urlsplit(self.url).scheme not in ('http', 'https'):
            raise UserError(f'{self.url} is no http or https address')
        patience = (self.settings.connect, self.settings.stall)
        options: dict[str, Any] = {'timeout': patience, 'stream': True}
        try:
            return _within(
                self.settings.connect + 2 * self.settings.stall,
                lambda: session.get(self.url, headers=headers, **options),
            )
        except TimeoutError:
            raise _Interrupted('does not finish its headers') from None
        except exceptions.SSLError:
            raise UserError(f'{self.url}: its certificate is not accepted') from None
        except (exceptions.ConnectionError, exceptions.Timeout) as e:
            error = _NoConnection if _never_connected(e) else _Interrupted
            raise error('breaks the connection off, or does not answer') from None
        except exceptions.RequestException as e:
            what = f'{self.url} cannot be requested: {shown(str(e))[:200]}'
            raise UserError(what) from None

    def _size(self, response: requests.Response) -> int | None:
        """
        Return the size that a response gives; `None` when it comes in chunks.

        :raises _Interrupted: for a status that may pass.
        :raises UserError: for any other status, or when no size can be known.
        """
        status = response.status_code
        answer = f'answers {status} {shown(response.reason or "")[:200]}'
        if status in (408, 425, 429) or status >= 500:
            raise _Interrupted(answer)
        if status != 200:
            raise UserError(f'{self.url} {answer}')
        length = response.headers.get('Content-Length', '')
        chunked = 'chunked' in response.headers.get('Transfer-Encoding', '').lower()
        if length.isdecimal() and not chunked:
            return int(length)
        if not chunked and not self.size_known:
            raise WrongFile(f'{self.url} does not say how long it is')
        return None

    def _append(self, response: requests.Response, noted: Mapping[str, Any]) -> None:
        """
        Append a response's body; the note then holds the size of the complete file.
        """
        start, size = self.n_bytes(), noted.get('size')
        room = start + shutil.disk_usage(self.folder).free - SPARE_DISK
        if (size or 0) > room:
            where = f'{self.folder} has room for {room:,}'
            raise UserError(f'{self.url} needs {size:,} bytes; {where}')
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
        with open(self.data, 'ab') as file, bar:
            for chunk in _chunks(response, self.settings):
                file.write(chunk)
                bar.update(len(chunk))
                if file.tell() > room:
                    what = f'does not end; {room:,} bytes filled the disk'
                    raise WrongFile(f'{self.url} {what}')
            file.flush()
            os.fsync(file.fileno())
        n_bytes = self.n_bytes()
        if size is not None and n_bytes != size:
            raise _Interrupted(f'ends after {n_bytes:,} of {size:,} bytes')
        self._write_note({**noted, 'size': n_bytes})

    def _check_kind(self) -> None:
        """
        Refuse a file that is not of the kind that its name says: an error page, mostly.
        """
        with open(self.data, 'rb') as file:
            head = file.read(512)
        suffix = Path(urlsplit(self.url).path.lower()).suffix
        page = WEB_PAGE.match(head.removeprefix(b'\xef\xbb\xbf'))
        what = 'a web page' if page else 'an empty file' if not head else 'something'
        if (
            not head.startswith(FIRST_BYTES.get(suffix, b''))
            or not head
            or (page and suffix not in WEB_SUFFIXES)
        ):
            kind = f'{suffix} archive' if suffix in FIRST_BYTES else 'file'
            raise WrongFile(f'{self.url} gives {what}, not the {kind}; it was removed')


class _Session(requests.Session):
    """
    A session that follows redirects to https, or elsewhere on the same http server.
    """

    def __init__(self) -> None:
        super().__init__()
        self.max_redirects = MAX_REDIRECTS

    def get_redirect_target(self, response: Any) -> str | None:
        target: str | None = super().get_redirect_target(response)
        if target is not None:
            check_redirect(response.url, urljoin(response.url, target))
        return target


def check_redirect(source: str, target: str) -> None:
    """
    Refuse a redirect that leads neither to https nor to the same http server.
    """
    old, new = urlsplit(source), urlsplit(target)
    same_server = old.scheme == new.scheme == 'http' and old.netloc == new.netloc
    if new.scheme != 'https' and not same_server:
        what = f'{source} redirects to {shown(target)[:200]}, which is not followed'
        raise UserError(f'{what}: only https is, and http on the same server')


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


def _continues(
    response: requests.Response, noted: Mapping[str, Any], start: int
) -> bool:
    """
    True if a response holds the missing bytes of the file that is here in part.
    """
    sent = CONTENT_RANGE.fullmatch(response.headers.get('Content-Range', ''))
    return (
        response.status_code == 206
        and sent is not None
        and [int(n) for n in sent.groups()] == [start, noted.get('size')]
        and _version(response.headers) in ('', noted['version'])
    )


def _chunks(response: requests.Response, settings: DownloadSettings) -> Iterator[bytes]:
    """
    Yield the bytes of a body as they come, not decompressed.

    :raises _Interrupted: when it ends early, or hardly anything comes.
    """
    # read1 returns what there is; without it (urllib3 1) a drip is not seen as one
    read = getattr(response.raw, 'read1', response.raw.read)
    since, n_bytes = time.monotonic(), 0
    while True:
        try:
            chunk = read(CHUNK, decode_content=False)
        except (urllib3.exceptions.HTTPError, OSError) as e:
            raise _Interrupted(f'breaks off ({type(e).__name__})') from None
        if not chunk:
            return
        yield chunk
        n_bytes += len(chunk)
        if time.monotonic() - since > settings.stall:
            if n_bytes < settings.least:
                what = f'sent {n_bytes} bytes in {settings.stall:g} seconds'
                raise _Interrupted(what)
            since, n_bytes = time.monotonic(), 0
