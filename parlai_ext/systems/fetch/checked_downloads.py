"""
ParlAI's downloads done by us: the functions of `parlai.core.build_data` are replaced
for a while. ParlAI's modules say what goes where; the files are resumed, checked
against the lock file and unpacked safely.
"""

import asyncio
import functools
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import httpx2
from pydantic import StringConstraints

from parlai_ext.compat import silent_parlai
from parlai_ext.core import UserError, bytes_hash, frozen, parse_json
from parlai_ext.core.records import record_from_json
from parlai_ext.engines import data_folder, downloads_folder, exclusive
from parlai_ext.files import sha256
from parlai_ext.store import json_text, make_folder, write_text
from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.archives import SPARE_DISK
from parlai_ext.systems.remote.event_loop import certificates, run_in_loop
from parlai_ext.view.progress import byte_bar

LOCK_NAME = 'parlai_ext.lock.json'


@frozen
class Entry:
    """
    Checksum and size of a downloaded file.
    """

    sha256: Annotated[str, StringConstraints(pattern='^[0-9a-f]{64}$')]
    size: int

    @classmethod
    def from_file(cls, path: Path) -> 'Entry':
        """
        Return the entry of a file that is here.
        """
        return cls(sha256(path), path.stat().st_size)


@frozen
class _Entries:
    version: Literal[1]
    files: Mapping[str, Entry]


@frozen
class LockFile:
    """
    The file with an entry for each address; it need not exist yet.
    """

    path: Path

    def entries(self) -> dict[str, Entry]:
        """
        Return the entries by address.

        :raises UserError: when the file is no lock file, or damaged.
        """
        try:
            content = parse_json(self.path.read_bytes())
            return dict(record_from_json(_Entries, content).files)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as e:
            raise UserError(
                f'{self.path} is no lock file ({type(e).__name__}: {e}); restore it, '
                'or remove it to trust the next downloads anew'
            ) from None

    def record(self, downloaded: Mapping[str, Entry]) -> None:
        """
        Add new entries; those that are there stay as they are.

        :raises UserError: when another process recorded something else meanwhile.
        """
        if not downloaded:
            return
        make_folder(self.path.parent)
        with exclusive(self.path.parent):
            entries = self.entries()
            for url, entry in downloaded.items():
                self.check(url, entry, entries.setdefault(url, entry))
            content = asdict(_Entries(1, entries))
            write_text(self.path, json_text(content, sort_keys=True))

    def check(self, url: str, entry: Entry, recorded: Entry | None) -> None:
        """
        Refuse a download that differs from what is recorded of its address.

        :raises UserError: naming both checksums.
        """
        if recorded is not None and recorded != entry:
            raise UserError(
                f'{url}: its sha256 is {entry.sha256}, but {self.path} has '
                f'{recorded.sha256}, recorded at the first download; the file is not '
                'trusted. If the change is known and right, remove that entry'
            )


CONTENT_RANGE = re.compile(r'bytes (\d+)-\d+/(\d+)')
WEB_PAGE = re.compile(rb'\s*<(!doctype|html|head|body|\?xml|error)', re.IGNORECASE)
WEB_SUFFIXES = ('.html', '.htm', '.xml')
FIRST_BYTES = {
    '.gz': b'\x1f\x8b',
    '.tgz': b'\x1f\x8b',
    '.zip': b'PK',
    '.bz2': b'BZh',
    '.xz': b'\xfd7zXZ',
}
MAX_REDIRECTS = 5
HEADERS = {'Accept-Encoding': 'identity', 'User-Agent': 'parlai_ext'}
# no other try would end in another way
FINAL = (httpx2.InvalidURL, httpx2.UnsupportedProtocol, httpx2.TooManyRedirects)


CONNECT = 15.0  # seconds until there is a connection
# seconds in which at least so many bytes must arrive; so the time for a whole file is
# limited, too
STALL = 30.0
LEAST = 2**14
TRIES = 5  # attempts in a row that bring fewer bytes than that
PAUSE = 1.0  # seconds before the second try; twice as many before each next one
LOCK = ContextVar[Path | None]('lock file of downloads', default=None)


@contextmanager
def locking_with(lock: Path | None) -> Iterator[None]:
    """
    Check downloads against this lock file meanwhile, in place of
    ``parlai_ext.lock.json`` in ``models``.
    """
    token = LOCK.set(lock)
    try:
        yield
    finally:
        LOCK.reset(token)


class _Interrupted(UserError):
    """
    A failure that may pass: worth another try.
    """


class Unreachable(_Interrupted):
    """
    No connection to the server: there is no network, or no such host.
    """


class FileDownload:
    """
    A download to a hidden folder, named after the address, which serves one process at
    a time.

    :param most: bytes that the file may have.
    :ivar data: the whole file, once it is here.
    """

    def __init__(self, url: str, most: int = sys.maxsize):
        self.url, self.most = url, most
        name = bytes_hash(url.encode())[:32]
        self.folder = downloads_folder() / name
        self.data = self.folder / 'file'
        self.part = self.folder / 'file.part'
        self.note = self.folder / 'file.version'

    def n_bytes(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def remove(self) -> None:
        for path in (self.part, self.note, self.data):
            path.unlink(missing_ok=True)

    def copy_to(self, place: Path) -> None:
        """
        Put the whole file at a place, too, at once.
        """
        place.parent.mkdir(parents=True, exist_ok=True)
        new = place.with_name(f'.{place.name}.new')
        new.unlink(missing_ok=True)
        try:
            os.link(self.data, new)
        except OSError:  # another file system, or one without links
            shutil.copyfile(self.data, new)
        os.replace(new, place)

    def run(self, expected: str | None = None) -> Entry:
        """
        Download what is missing and return the checksum and size of the whole file.

        :param expected: the SHA-256 that the file must have.
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
                progressed = self.n_bytes() - most >= LEAST
                failures = 0 if progressed else failures + 1
                most = max(most, self.n_bytes())
                if failures >= TRIES:
                    rest = f'; another run continues after {most:,} bytes'
                    raise UserError(f'{e}{rest if most else ""}') from None
                time.sleep(PAUSE * 2 ** max(failures - 1, 0))
            connected = True
        entry = Entry.from_file(self.data)
        if expected not in (None, entry.sha256):
            self.remove()
            raise UserError(
                f'{self.url} is another file: its sha256 is {entry.sha256}, not '
                f'{expected}'
            )
        return entry

    def _request_missing(self) -> None:
        """
        Request the bytes that are missing, once, and append them. Remove and refuse a
        file that is not what its name says: mostly an error page.
        """
        try:
            run_in_loop(self._transfer())
        except TimeoutError:
            raise _Interrupted(f'{self.url} hardly sends anything') from None
        except FINAL as e:
            raise UserError(f'{self.url} cannot be requested: {str(e)[:200]}') from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as e:
            if 'CERTIFICATE' in str(e):
                raise UserError(f'{self.url}: {str(e)[:200]}') from None
            raise Unreachable(f'{self.url} cannot be reached (no network?)') from None
        except httpx2.HTTPError as e:
            raise _Interrupted(f'{self.url} breaks off ({type(e).__name__})') from None
        with open(self.part, 'rb') as file:
            head = file.read(512)
        suffix = Path(urlsplit(self.url).path.lower()).suffix
        is_page = WEB_PAGE.match(head.removeprefix(b'\xef\xbb\xbf'))
        what = ''
        if is_page and suffix not in WEB_SUFFIXES:
            what = 'a web page'
        elif not head:
            what = 'an empty file'
        elif not head.startswith(FIRST_BYTES.get(suffix, b'')):
            what = f'something else than a {suffix} file'
        if what:
            self.remove()
            raise UserError(f'{self.url} gives {what}, which was removed')
        os.replace(self.part, self.data)

    async def _transfer(self) -> None:
        """
        Make one request. Its deadline moves on with every `LEAST` bytes.

        :raises _Interrupted: when what comes does not continue the part, which is
            removed.
        """
        start, headers = self.n_bytes(), {}
        noted = self.note.read_bytes() if self.note.is_file() else b''
        version = noted.decode('ascii', 'ignore')
        version = version if version.isprintable() else ''
        if start and version:
            headers = {'Range': f'bytes={start}-', 'If-Range': version}
        client = httpx2.AsyncClient(
            headers=HEADERS,
            verify=certificates(),
            timeout=httpx2.Timeout(None, connect=CONNECT),
            follow_redirects=True,
            max_redirects=MAX_REDIRECTS,
            event_hooks={'request': [self._check_address]},
        )
        async with (
            client,
            asyncio.timeout(CONNECT + STALL) as deadline,
            client.stream('GET', self.url, headers=headers) as response,
        ):
            if response.status_code in (206, 416):
                size = self._size_of_rest(response, version)
            else:
                size = self._size(response)
                self.remove()
                write_text(self.note, _version(response.headers))
            await self._append(response, size, deadline)

    async def _check_address(self, request: httpx2.Request) -> None:
        """
        Refuse, also of redirects, what is no http address, or leads from https to http.
        """
        schemes = ('https',) if self.url.startswith('https:') else ('https', 'http')
        if request.url.scheme not in schemes:
            raise UserError(f'{self.url} redirects to {str(request.url)[:200]}')

    def _size_of_rest(self, response: httpx2.Response, version: str) -> int | None:
        """
        Return the size of the file of which a response gives the rest.

        :raises _Interrupted: when that does not continue the part.
        """
        sent = CONTENT_RANGE.fullmatch(response.headers.get('Content-Range', ''))
        if response.status_code == 206 and sent:
            first, size = map(int, sent.groups())
            is_same = _version(response.headers) in ('', version)
            if is_same and first == self.n_bytes() < size:
                return size
        self.remove()
        raise _Interrupted(f'{self.url} has changed meanwhile')

    def _size(self, response: httpx2.Response) -> int | None:
        """
        Return the size that a response gives; `None` when it comes in chunks.

        :raises _Interrupted: for a status that may pass.
        :raises UserError: for any other status, or when no size can be known.
        """
        status = response.status_code
        answer = f'{self.url} answers {status} {response.reason_phrase[:200]}'
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

    async def _append(
        self, response: httpx2.Response, size: int | None, deadline: asyncio.Timeout
    ) -> None:
        """
        Append a response's body, as much as the disk has room for.

        :raises _Interrupted: when it ends early.
        """
        start = counted = self.n_bytes()
        room = start + shutil.disk_usage(self.folder).free - SPARE_DISK
        now = asyncio.get_running_loop().time
        deadline.reschedule(now() + STALL)
        name = '/'.join(self.url.rsplit('/', 2)[1:])
        with open(self.part, 'ab') as file, byte_bar(name, size, start) as bar:
            self._check_room(start, size or 0, room)
            async for chunk in response.aiter_raw():
                self._check_room(start, file.tell() + len(chunk), room)
                file.write(chunk)
                bar.update(len(chunk))
                if file.tell() - counted >= LEAST:
                    counted = file.tell()
                    deadline.reschedule(now() + STALL)
            file.flush()
            os.fsync(file.fileno())
        n = self.n_bytes()
        if size not in (None, n):
            raise _Interrupted(f'{self.url} ends after {n:,} of {size:,} bytes')

    def _check_room(self, start: int, needed: int, room: int) -> None:
        if needed > self.most:
            self.remove()
            raise UserError(
                f'{self.url} is another file: it has more than {self.most:,} bytes'
            )
        if needed > room:
            if not start:
                self.remove()
            raise UserError(
                f'{self.url} needs more than {room:,} bytes, for which {self.folder} '
                'has room'
            )


def _version(headers: Mapping[str, str]) -> str:
    """
    Return the header that tells one version of a file from another; '' without one.

    A weak ETag is not for ranges of bytes: RFC 9110, 13.1.5.
    """
    etag = headers.get('ETag', '')
    is_strong = etag and not etag.startswith('W/')
    return etag if is_strong else headers.get('Last-Modified', '')


def fetch_pinned(url: str, checksum: str, place: Path, most: int) -> None:
    """
    Download a file whose checksum is known to its place.

    :param most: bytes that it may have.
    :raises Unreachable: when no connection comes about.
    :raises UserError: when it cannot be had, or is another file.
    """
    download = FileDownload(url, most=most)
    with exclusive(download.folder):
        download.run(checksum)
        download.copy_to(place)
        download.remove()


# --- the downloads of ParlAI ----------------------------------------------------------

FUNCTIONS = (
    'download',
    'download_from_google_drive',
    'download_multiprocess',
    'get_http_session',
    'untar',
    'ungzip',
    'make_dir',
    'remove_dir',
    'mark_done',
)
PACKAGES = ('parlai', 'parlai_ext', 'parlai_internal', 'projects')

stand_ins: list[object] = []  # the innermost last


@contextmanager
def replaced(stand_in: object) -> Iterator[None]:
    """
    Call the methods of an object in the place of those functions of `build_data` that
    have their names, for the whole process.

    :param stand_in: has some of `FUNCTIONS`, and `download_file` in the place of the
        method of `DownloadableFile`, which gets the file.
    """
    _install()
    stand_ins.append(stand_in)
    try:
        yield
    finally:
        stand_ins.remove(stand_in)


@functools.cache
def _install() -> None:
    """
    Put a switch in the place of each function, also where modules imported it by name.

    Modules that are imported later get the switches from `build_data`.
    """
    from parlai.core import build_data

    originals = [vars(build_data)[name] for name in FUNCTIONS]
    for module_name, module in list(sys.modules.items()):
        if module_name.partition('.')[0] not in PACKAGES or module is None:
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value in originals:
                setattr(module, key, _switch(value))
    resource = build_data.DownloadableFile
    resource.download_file = _switch(resource.download_file)


def _switch(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def replaced_or_original(*args: Any, **kwargs: Any) -> Any:
        stand_in = stand_ins[-1] if stand_ins else None
        return getattr(stand_in, original.__name__, original)(*args, **kwargs)

    return replaced_or_original


def refuse_unknown_way(*_: Any, **__: Any) -> None:
    raise UserError('it downloads in a way of its own, which cannot be checked')


@frozen(eq=False)
class DownloadNoter:
    """
    Stands in for the functions of `build_data`: touches neither network nor disk.

    :param note: is told each address that would be downloaded.
    """

    note: Callable[[str], object]

    def download(self, url: str, *_: Any, **__: Any) -> None:
        self.note(url)

    def download_file(self, resource: Any, folder: str) -> None:
        self.note(resource.url)

    def untar(self, *_: Any, **__: Any) -> None:
        """
        Do nothing.
        """

    ungzip = make_dir = remove_dir = mark_done = untar
    download_from_google_drive = download
    download_multiprocess = get_http_session = staticmethod(refuse_unknown_way)


@contextmanager
def downloads_noted(note: Callable[[str], object]) -> Iterator[None]:
    """
    Let ParlAI's modules run as if they downloaded, without a word.

    :param note: as of `DownloadNoter`.
    """
    with replaced(DownloadNoter(note)), silent_parlai():
        yield


GZIPPED = ('.gz', '.gzip', '.tgz', '.tar')  # build_data.py:292


def lock_file() -> LockFile:
    """
    Return the file of checksums that `locking_with` names, or the one in the folder of
    models.
    """
    return LockFile(LOCK.get() or Path(data_folder(), 'models', LOCK_NAME))


@contextmanager
def checked_downloads() -> Iterator['Downloader']:
    """
    Let ParlAI's modules download through a `Downloader` only.

    The parts of files stay until the end, so that a step after a download may fail, or
    be killed, without another download. Checksums of new files enter the lock file at
    the end, if all went well.
    """
    downloader = Downloader(lock_file())
    with replaced(downloader):
        try:
            yield downloader
            downloader.record()
        except archives.BadArchive:
            downloader.remove_parts()
            raise
    downloader.remove_parts()


def ensure_checked_downloads() -> AbstractContextManager[object]:
    """
    Download by `checked_downloads` what a model or a task fetches while it is built.

    Where ParlAI's functions are replaced already, nothing changes.
    """
    return nullcontext() if stand_ins else checked_downloads()


@dataclass
class Downloader:
    """
    Stands in for the functions of `build_data`.

    :param entries: what was downloaded, by address.
    """

    lock: LockFile
    entries: dict[str, Entry] = field(default_factory=dict)

    def download_file(self, resource: Any, folder: str) -> None:
        """
        Download and unpack a task's file; its own checksum counts too.
        """
        if resource.from_google:
            self.download_from_google_drive(resource.url)
        place = Path(folder, resource.file_name)
        is_damaged = place.is_file() and sha256(place) != resource.hashcode
        self.download(
            resource.url,
            folder,
            resource.file_name,
            is_damaged,
            expected=resource.hashcode,
        )
        if resource.zipped:
            self.untar(folder, resource.file_name)

    def download(
        self,
        url: str,
        path: str,
        fname: str,
        redownload: bool = False,
        *_: Any,
        expected: str | None = None,
        **__: Any,
    ) -> None:
        """
        Download an address to a place, unless there is a file.

        :param expected: the SHA-256 that the file must have, as ParlAI says.
        :raises UserError: when it cannot be had, or is not what it was at first.
        """
        part, place = FileDownload(url), Path(path, fname)
        if place.exists() and not redownload:
            return
        with exclusive(part.folder):
            if place.exists() and not redownload:
                return  # of the process that this one has waited for
            recorded = self.lock.entries().get(url)
            entry = part.run(expected)
            try:
                self.lock.check(url, entry, recorded)
            except UserError:
                part.remove()
                raise
            self.entries[url] = entry
            part.copy_to(place)

    @staticmethod
    def untar(
        path: str, fname: str, delete: bool = True, flatten_tar: bool = False
    ) -> None:
        """
        Unpack an archive in its folder, as `build_data.untar`.
        """
        with _removed(Path(path, fname), delete) as archive:
            archives.unpack(archive, Path(path), flatten=flatten_tar)

    @staticmethod
    def ungzip(path: str, fname: str, deleteGZip: bool = True) -> None:
        """
        Expand a compressed file beside it, as `build_data.ungzip`.
        """
        ends = [end for end in GZIPPED if fname.endswith(end)]
        name = fname[: -len(ends[0])] if ends else f'{fname}_unzip'
        with _removed(Path(path, fname), deleteGZip) as archive:
            archives.unpack_gzip(archive, Path(path, name))

    @staticmethod
    def download_from_google_drive(url: str, *_: Any, **__: Any) -> None:
        """
        Refuse such a file.
        """
        raise UserError(
            f'Google Drive file {url}: it may give a page instead of the file, so it '
            'is not downloaded; get it with a browser and put it where ParlAI expects '
            'it'
        )

    download_multiprocess = get_http_session = staticmethod(refuse_unknown_way)

    def record(self) -> None:
        """
        Record the checksums of what was downloaded.

        :raises UserError: when another process recorded something else meanwhile.
        """
        self.lock.record(self.entries)

    def remove_parts(self) -> None:
        """
        Remove the parts of what was downloaded, and nothing of another process.
        """
        for part in map(FileDownload, self.entries):
            with exclusive(part.folder):
                part.remove()


@contextmanager
def _removed(archive: Path, delete: bool) -> Iterator[Path]:
    """
    Remove an archive after its use if that is wanted, or if it is not to be trusted.
    """
    try:
        yield archive
    except archives.BadArchive:
        delete = True
        raise
    finally:
        if delete:
            archive.unlink(missing_ok=True)
