"""
Download of everything that the systems of a roster still need: one system's failure
stops no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.nouns import System
from parlai_ext.files.option_files import sha256
from parlai_ext.files.roster_file import FILE_OPTIONS
from parlai_ext.systems.families import family_of
from parlai_ext.systems.fetch.checked_downloads import lock_file_of
from parlai_ext.systems.fetch.http_file import DownloadSettings, Unreachable
from parlai_ext.systems.fetch.lock_file import Entry
from parlai_ext.systems.needed_files import NeededFile, needed_file, needed_tokenizer
from parlai_ext.systems.system_options import effective_options


@dataclass(frozen=True)
class Downloaded:
    """
    What was downloaded for one system.

    :param reason: one line, when not everything could be had.
    """

    system: str
    files: tuple[str, ...] = ()
    reason: str | None = None


def download_systems(
    systems: Iterable[System],
    datapath: str | None = None,
    settings: DownloadSettings | None = None,
) -> list[Downloaded]:
    """
    Download what the systems lack; files that are here are not touched.
    """
    prepare_parlai()
    downloads = _Downloads(datapath, settings or DownloadSettings())
    return [downloads.download(system) for system in systems]


class _Downloads:
    """
    The downloads of one roster. What failed is not tried again for another system.
    """

    def __init__(self, datapath: str | None, settings: DownloadSettings):
        self.datapath = datapath
        self.settings = settings
        self.failures: dict[tuple[str, ...], UserError] = {}
        self.silent_hosts: set[str] = set()

    def download(self, system: System) -> Downloaded:
        """
        Download what one system needs, until something cannot be had.
        """
        files: list[str] = []
        option = ''
        try:
            for option in FILE_OPTIONS:
                value = str(system.opt.get(option) or '')
                files += self._fetch(needed_file(option, value, self.datapath))
            option = 'model'
            files += family_of(system.opt).fetch_weights(
                system, self._record, self.datapath
            )
            option = 'dict_tokenizer'
            opt = effective_options(system, self.datapath)
            files += self._fetch(needed_tokenizer(opt, self.datapath))
            inner = family_of(opt).inner_system(opt)
            if inner is not None:
                downloaded = self.download(inner)
                files += downloaded.files
                if downloaded.reason:
                    raise UserError(f'model: {downloaded.reason}')
        except UserError as e:
            has_option = str(e).startswith((f'{option}: ', 'hf_'))
            what = str(e) if has_option else f'{option}: {e}'
            reason = str(SystemFailed(system.name, what))
            return Downloaded(system.name, tuple(files), reason)
        return Downloaded(system.name, tuple(files))

    def _fetch(self, needed: NeededFile | None) -> tuple[str, ...]:
        """
        Download what is needed and return its names.

        :raises UserError: when it cannot be had, now or when another system needed it.
        """
        if needed is None or not needed.urls:
            return ()
        names, hosts = needed.names, {urlsplit(url).netloc for url in needed.urls}
        for host in sorted(hosts & self.silent_hosts):
            what = f'cannot be downloaded: {host} cannot be reached'
            raise UserError(f'{names[0]} {what}')
        if names not in self.failures:
            try:
                needed.fetch(self.settings)
                return names
            except UserError as e:
                if isinstance(e, Unreachable):
                    self.silent_hosts |= hosts
                self.failures[names] = e
        raise self.failures[names]

    def _record(self, address: str, files: Sequence[Path]) -> None:
        """
        Record the checksums of weights that the hub's own client has downloaded.

        :raises UserError: when the same address once had other weights.
        """
        entries = {
            f'{address}/{path.name}': Entry(sha256(path), path.stat().st_size)
            for path in files
        }
        lock_file_of(self.datapath, self.settings).record(entries)
