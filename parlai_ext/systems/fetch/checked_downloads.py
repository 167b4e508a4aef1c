"""
ParlAI's downloads done by us: the functions of `parlai.core.build_data` are replaced
for a while. ParlAI's modules say what goes where; the files are resumed, checked
against the lock file and unpacked safely.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.data_folder import data_folder, exclusive
from parlai_ext.systems.fetch.http_file import (
    LOCK_NAME,
    SETTINGS,
    Entry,
    FileDownload,
    LockFile,
)

Function = Callable[..., Any]
NAMES = (
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
METHOD = 'DownloadableFile.download_file'
PACKAGES = ('parlai', 'parlai_ext', 'parlai_internal', 'projects')

replacements: list[Mapping[str, Function]] = []  # the innermost last


@contextmanager
def replaced(functions: Mapping[str, Function]) -> Iterator[None]:
    """
    Call other functions in the place of `build_data`'s, for the whole process.

    :param functions: some of `NAMES`, or `METHOD`, with what is called instead.
    """
    _install()
    replacements.append(functions)
    try:
        yield
    finally:
        replacements.remove(functions)


@functools.cache
def _install() -> None:
    """
    Put a switch in the place of each function, also where modules imported it by name.

    Modules that are imported later get the switches from `build_data`.
    """
    from parlai.core import build_data

    switches = {vars(build_data)[name]: name for name in NAMES}
    for module_name, module in list(sys.modules.items()):
        if module_name.partition('.')[0] not in PACKAGES or module is None:
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value in switches:
                setattr(module, key, _switch(switches[value], value))
    resource = build_data.DownloadableFile
    resource.download_file = _switch(METHOD, resource.download_file)


def _switch(name: str, original: Function) -> Function:
    @functools.wraps(original)
    def replaced_or_original(*args: Any, **kwargs: Any) -> Any:
        for functions in reversed(replacements):
            if name in functions:
                return functions[name](*args, **kwargs)
        return original(*args, **kwargs)

    return replaced_or_original


def noting(note: Callable[[str], object]) -> dict[str, Function]:
    """
    Return functions that touch neither network nor disk, and tell each address that
    would be downloaded.
    """

    def nothing(*_: Any, **__: Any) -> None:
        pass

    return {
        **dict.fromkeys(NAMES, nothing),
        'download': lambda url, *_, **__: note(url),
        'download_from_google_drive': lambda url, *_, **__: note(url),
        METHOD: lambda resource, folder: note(resource.url),
        'get_http_session': refuse_unknown_way,
        'download_multiprocess': refuse_unknown_way,
    }


GZIPPED = ('.gz', '.gzip', '.tgz', '.tar')  # build_data.py:292


def lock_file() -> LockFile:
    """
    Return the file of checksums that the settings name, or the one in the folder of
    models.
    """
    default = Path(data_folder(), 'models', LOCK_NAME)
    return LockFile(SETTINGS.get().lock or default)


@contextmanager
def checked_downloads() -> Iterator[Downloader]:
    """
    Let ParlAI's modules download through a `Downloader` only.

    The parts of files stay until the end, so that a step after a download may fail, or
    be killed, without another download. Checksums of new files enter the lock file at
    the end, if all went well.
    """
    downloader = Downloader(lock_file())
    with replaced(downloader.functions()):
        try:
            yield downloader
            downloader.record()
        except archives.BadArchive:
            downloader.remove_parts()
            raise
    downloader.remove_parts()


@contextmanager
def ensure_checked_downloads() -> Iterator[None]:
    """
    Download by `checked_downloads` what a model or a task fetches while it is built.

    Where ParlAI's functions are replaced already, nothing changes.
    """
    if replacements:
        yield
    else:
        with checked_downloads():
            yield


@dataclass
class Downloader:
    """
    Stands in for the functions of `build_data`.

    :param entries: what was downloaded, by address.
    """

    lock: LockFile
    entries: dict[str, Entry] = field(default_factory=dict)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """
        Return what is called in the place of ParlAI's functions.
        """
        return {
            'download': lambda url, path, fname, redownload=False, *_, **__: (
                self.download(url, Path(path, fname), redownload)
            ),
            METHOD: self.download_resource,
            'untar': untar,
            'ungzip': ungzip,
            'download_from_google_drive': refuse_google_drive,
            'download_multiprocess': refuse_unknown_way,
            'get_http_session': refuse_unknown_way,
        }

    def download_resource(self, resource: Any, folder: str) -> None:
        """
        Download and unpack a task's file; its own checksum counts too.
        """
        if resource.from_google:
            refuse_google_drive(resource.url)
        place = Path(folder, resource.file_name)
        is_damaged = place.is_file() and sha256(place) != resource.hashcode
        self.download(resource.url, place, is_damaged, resource.hashcode)
        if resource.zipped:
            untar(folder, resource.file_name)

    def download(
        self, url: str, place: Path, again: bool, expected: str | None = None
    ) -> None:
        """
        Download an address to a place, unless there is a file.

        :param expected: the SHA-256 that the file must have.
        :raises UserError: when it cannot be had, or is not what it was at first.
        """
        part = FileDownload(url)
        if place.exists() and not again:
            return
        with exclusive(part.folder):
            if place.exists() and not again:
                return  # of the process that this one has waited for
            recorded = self.lock.entries().get(url)
            entry = part.run()
            try:
                self.lock.check(url, entry, recorded)
                if expected not in (None, entry.sha256):
                    raise UserError(
                        f'{url}: its sha256 is {entry.sha256}, but ParlAI expects '
                        f'{expected}; the file is not trusted'
                    )
            except UserError:
                part.remove()
                raise
            self.entries[url] = entry
            part.copy_to(place)

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


def untar(
    path: str, fname: str, delete: bool = True, flatten_tar: bool = False
) -> None:
    """
    Unpack an archive in its folder, as `build_data.untar`.
    """
    with _removed(Path(path, fname), delete) as archive:
        archives.unpack(archive, Path(path), flatten=flatten_tar)


def ungzip(path: str, fname: str, deleteGZip: bool = True) -> None:
    """
    Expand a compressed file beside it, as `build_data.ungzip`.
    """
    ends = [end for end in GZIPPED if fname.endswith(end)]
    name = fname[: -len(ends[0])] if ends else f'{fname}_unzip'
    with _removed(Path(path, fname), deleteGZip) as archive:
        archives.unpack_gzip(archive, Path(path, name))


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


def refuse_google_drive(url: str, *_: Any, **__: Any) -> None:
    raise UserError(
        f'Google Drive file {url}: it may give a page instead of the file, so it is '
        'not downloaded; get it with a browser and put it where ParlAI expects it'
    )


def refuse_unknown_way(*_: Any, **__: Any) -> None:
    raise UserError('it downloads in a way of its own, which cannot be checked')
