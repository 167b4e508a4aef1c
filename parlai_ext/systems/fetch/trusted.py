"""
ParlAI's downloads in our hands: its modules say what goes where, we fetch and unpack.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.answers import LIMITS, Limits
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.systems.fetch.file import fetch
from parlai_ext.systems.fetch.hands import replaced
from parlai_ext.systems.fetch.lock import Entry, LockFile, differs
from parlai_ext.systems.fetch.staging import Stage, folder_of, held

LOCK = 'parlai_ext.lock.json'
GZIPPED = ('.gz', '.gzip', '.tgz', '.tar')  # build_data.py:292

_active: list[Hands] = []


@contextmanager
def trusted_downloads(
    datapath: str | None = None,
    *,
    lock: Path | None = None,
    progress: bool = True,
    limits: Limits = LIMITS,
    stage: Stage | None = None,
) -> Iterator[Hands]:
    """
    Let ParlAI's modules download only by us: resumed, checked, unpacked safely.

    What came is written into the lock file at the end, if all went well.

    :param lock: where the hashes are (default: ``parlai_ext.lock.json`` in ``models``).
    :param stage: the data folder that the modules were told, if it is not `datapath`.
    """
    home = Path(data_folder(datapath))
    lock_file = LockFile(lock or default_lock(str(home)))
    hands = Hands(home, lock_file, progress, limits, stage)
    with replaced(hands.table()):
        _active.append(hands)
        try:
            yield hands
        finally:
            _active.remove(hands)
    lock_file.record(hands.found)


def default_lock(datapath: str | None) -> Path:
    """
    Return the lock file beside the models of a data folder.
    """
    return Path(data_folder(datapath), 'models', LOCK)


def under_way_now() -> bool:
    """
    Tell whether ParlAI's downloads are in our hands at the moment.
    """
    return bool(_active)


class Hands:
    """
    What stands in for `build_data`'s functions, with what they have fetched.

    On a stage, the parts stay until `finish`, so that a later step may fail or be
    killed without another download.
    """

    def __init__(
        self,
        datapath: Path,
        lock: LockFile,
        progress: bool,
        limits: Limits,
        stage: Stage | None,
    ):
        self.datapath = datapath
        self.lock = lock
        self.progress = progress
        self.limits = limits
        self.stage = stage
        self.found: dict[str, Entry] = {}
        self.origin: dict[Path, str] = {}

    def table(self) -> dict[str, Callable[..., Any]]:
        """
        Return the hands by the names that they have in `build_data`.
        """
        hands: dict[str, Callable[..., Any]] = {
            'download': self.download,
            'DownloadableFile.download_file': lambda file, dpath: self.file(
                file, dpath
            ),
            'untar': self.untar,
            'ungzip': self.ungzip,
            'download_from_google_drive': refuse_google_drive,
            'download_multiprocess': refuse_unknown,
            'get_http_session': refuse_unknown,
        }
        if self.stage is not None:
            hands['remove_dir'] = self.remove_dir
        return hands

    def download(
        self,
        url: str,
        path: str,
        fname: str,
        redownload: bool = False,
        *_: Any,
        **__: Any,
    ) -> None:
        """
        Stand in for `build_data.download`.
        """
        self.fetched(url, Path(path, fname), redownload)

    def file(self, resource: Any, dpath: str) -> None:
        """
        Stand in for `DownloadableFile.download_file`; its checksum counts too.
        """
        if resource.from_google:
            refuse_google_drive(resource.url)
        place = Path(dpath, resource.file_name)
        bad = place.is_file() and sha256(place) != resource.hashcode
        self.fetched(resource.url, place, bad, resource.hashcode)
        if resource.zipped:
            self.untar(dpath, resource.file_name)

    def fetched(
        self, url: str, place: Path, redownload: bool, hashcode: str | None = None
    ) -> None:
        """
        Bring an address to a place, unless something is there.
        """
        if place.exists() and not redownload:
            return
        folder = folder_of(url, self.datapath)
        with held(folder):
            if place.exists() and not redownload:
                return  # by the process that we have been waiting for
            known = self.lock.entries().get(url)
            entry = fetch(
                url,
                folder,
                size_known=bool(known or hashcode),
                progress=self.progress,
                limits=self.limits,
            )
            wrong = self.wrong(url, entry, known, hashcode)
            if wrong:
                _clear(folder)
                raise UserError(wrong)
            self.found[url] = entry
            self.origin[place] = url
            place.parent.mkdir(parents=True, exist_ok=True)
            _put(folder / 'data', place, keep=self.stage is not None)
            if self.stage is None:
                _clear(folder)

    def wrong(
        self, url: str, entry: Entry, known: Entry | None, hashcode: str | None
    ) -> str | None:
        """
        Say how a file differs from what we have recorded, or from what ParlAI expects.
        """
        if known is not None and known != entry:
            return differs(url, entry.sha256, self.lock.path, known)
        if hashcode is not None and hashcode != entry.sha256:
            return (
                f'{url}: its sha256 is {entry.sha256}, but ParlAI expects {hashcode}; '
                'what came is not trusted'
            )
        return None

    def untar(
        self, path: str, fname: str, delete: bool = True, flatten_tar: bool = False
    ) -> None:
        """
        Stand in for `build_data.untar`: all of the archive, or nothing.
        """
        archive = Path(path, fname)
        try:
            archives.unpack(archive, Path(path), flatten=flatten_tar)
        except archives.BadArchive:
            self.forget(archive)
            raise
        if delete:
            archive.unlink(missing_ok=True)

    def ungzip(self, path: str, fname: str, deleteGZip: bool = True) -> None:
        """
        Stand in for `build_data.ungzip`.
        """
        source = Path(path, fname)
        ends = [end for end in GZIPPED if fname.endswith(end)]
        name = fname[: -len(ends[0])] if ends else f'{fname}_unzip'
        try:
            archives.unpack_gzip(source, Path(path, name))
        except archives.BadArchive:
            self.forget(source)
            raise
        if deleteGZip:
            source.unlink(missing_ok=True)

    def forget(self, archive: Path) -> None:
        """
        Remove an archive that is not to be trusted, also from what would be resumed.
        """
        archive.unlink(missing_ok=True)
        url = self.origin.get(archive)
        if url is not None:
            folder = folder_of(url, self.datapath)
            with held(folder):
                _clear(folder)

    def remove_dir(self, path: str) -> None:
        """
        Stand in for `build_data.remove_dir`: what it means to remove goes at the end.
        """
        assert self.stage is not None
        self.stage.removed.append(Path(path))
        shutil.rmtree(path, ignore_errors=True)

    def finish(self) -> None:
        """
        Remove the parts: what was made of them is in its place.
        """
        for url in self.found:
            folder = folder_of(url, self.datapath)
            with held(folder):
                _clear(folder)


def refuse_google_drive(url: str, *_: Any, **__: Any) -> None:
    raise UserError(
        f'Google Drive file {url}: it may give a page instead of the file, so it is '
        'not fetched; get it with a browser and put it where ParlAI expects it'
    )


def refuse_unknown(*_: Any, **__: Any) -> None:
    raise UserError('it downloads in a way of its own, which cannot be checked')


def _put(data: Path, place: Path, keep: bool) -> None:
    """
    Put a file into its place at once; with ``keep`` it stays where it is, too.
    """
    new = place.with_name(f'.{place.name}.new')
    new.unlink(missing_ok=True)
    if not keep:
        shutil.move(data, new)  # a plain rename on one file system
    else:
        try:
            os.link(data, new)
        except OSError:  # a file system without links
            shutil.copyfile(data, new)
    os.replace(new, place)


def _clear(folder: Path) -> None:
    for entry in folder.iterdir():
        entry.unlink()
