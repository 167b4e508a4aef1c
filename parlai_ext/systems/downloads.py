"""
All that a roster's systems still need, fetched: one system's failure stops no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.nouns import System
from parlai_ext.files.option_files import files_at, sha256
from parlai_ext.files.roster_file import FILE_OPTIONS, INDEX_OPTIONS
from parlai_ext.systems import candidates, tokenizer_files, zoo
from parlai_ext.systems.families import family_of
from parlai_ext.systems.fetch.answers import LIMITS, Limits
from parlai_ext.systems.fetch.data_folder import is_zoo_path
from parlai_ext.systems.fetch.file import Unreachable
from parlai_ext.systems.fetch.lock import Entry, LockFile
from parlai_ext.systems.fetch.trusted import default_lock, trusted_downloads
from parlai_ext.systems.system_options import effective_options


@dataclass(frozen=True)
class Downloaded:
    """
    What came for one system; `reason` is one line when not all could be had.
    """

    system: str
    files: tuple[str, ...] = ()
    reason: str | None = None


def download_systems(
    systems: Iterable[System],
    datapath: str | None = None,
    *,
    lock: Path | None = None,
    progress: bool = True,
    limits: Limits = LIMITS,
) -> list[Downloaded]:
    """
    Fetch what is not here of every system's models; what is here is not touched.

    :param lock: file of hashes, if it is not ``models/parlai_ext.lock.json``.
    """
    prepare_parlai()
    means = Means(datapath, lock, progress, limits)
    return [_download(system, means) for system in systems]


class Means:
    """
    How to fetch, and what has failed already: asked once, not once a system.
    """

    def __init__(
        self, datapath: str | None, lock: Path | None, progress: bool, limits: Limits
    ):
        self.datapath = datapath
        self.lock = lock
        self.progress = progress
        self.limits = limits
        self.failed: dict[str, str] = {}
        self.silent: set[str] = set()  # hosts that do not answer

    def fetch(self, key: str, value: str) -> bool:
        """
        Fetch what an option needs and say whether there was anything to fetch.

        :raises UserError: when it cannot be had.
        """
        if is_zoo_path(value):
            return self.fetch_from_zoo(key, value)
        if candidates.is_spec(value) and candidates.to_download(value, self.datapath):
            with trusted_downloads(self.datapath, **self.how()):
                candidates.candidates_file(value, self.datapath)
            return True
        return False

    def how(self) -> dict[str, Any]:
        return {'lock': self.lock, 'progress': self.progress, 'limits': self.limits}

    def fetch_from_zoo(self, key: str, path: str) -> bool:
        """
        Fetch a path of the zoo, or say again why that failed.

        :raises UserError: when it cannot be had, now or when it was asked for before.
        """
        urls = zoo.needed_downloads(path, self.datapath)
        if not urls:
            return False
        if path in self.failed:
            raise UserError(self.failed[path])
        hosts = {urlsplit(url).netloc for url in urls}
        for host in sorted(hosts & self.silent):
            raise UserError(f'{path} cannot be downloaded: {host} cannot be reached')
        try:
            found = zoo.fetch_path(path, self.datapath, **self.how())
            if not files_at(found, is_prefix=key in INDEX_OPTIONS):
                raise UserError(f'{path}: what came has no file {found}')
        except UserError as e:
            if isinstance(e, Unreachable):
                self.silent |= hosts
            self.failed[path] = str(e)
            raise
        return True

    def fetch_tokenizer(self, system: System) -> list[str]:
        """
        Fetch a tokenizer that lies apart from its model, and return its addresses.

        :raises UserError: when it cannot be had.
        """
        opt = effective_options(system, self.datapath)
        urls = tokenizer_files.missing_urls(opt, self.datapath)
        if urls:
            with trusted_downloads(self.datapath, **self.how()):
                tokenizer_files.fetch(opt, self.datapath)
        return urls

    def record_weights(self, address: str, files: Sequence[Path]) -> None:
        """
        Record the hashes of weights that another client has brought from an address.

        :raises UserError: when the same address once had other weights.
        """
        LockFile(self.lock or default_lock(self.datapath)).record(
            {
                f'{address}/{path.name}': Entry(sha256(path), path.stat().st_size)
                for path in files
            }
        )


def _download(system: System, means: Means) -> Downloaded:
    """
    Fetch what one system needs, and stop where something cannot be had.
    """
    files: list[str] = []
    for key in FILE_OPTIONS:
        value = str(system.opt.get(key) or '')
        try:
            if means.fetch(key, value):
                files.append(value)
        except UserError as e:
            return _failed(system, files, key, e)
    try:
        family = family_of(system.opt)
        files += family.fetch_weights(system, means.record_weights)
    except UserError as e:
        return _failed(system, files, 'model', e)
    try:
        files += means.fetch_tokenizer(system)
    except UserError as e:
        return _failed(system, files, 'dict_tokenizer', e)
    return Downloaded(system.name, tuple(files))


def _failed(
    system: System, files: Sequence[str], key: str, error: UserError
) -> Downloaded:
    what = str(error)
    named = what if what.startswith('hf_') else f'{key}: {what}'
    return Downloaded(system.name, tuple(files), str(SystemFailed(system.name, named)))
