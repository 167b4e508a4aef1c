"""
Every system of a protocol, and its judge: present, to download, or missing and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.commands.command import Command, fail, print_lines
from parlai_ext.core import Roster, System, UserError, frozen, option
from parlai_ext.files import SystemInfo, load_roster, parse_target
from parlai_ext.view import data_size

if TYPE_CHECKING:
    from parlai_ext.systems.identity import Resolution


RoleAndSystem = tuple[str, 'System']


@frozen
class DownloadOptions:
    """
    Whether what is missing is fetched.
    """

    download: bool = option(
        False,
        help='fetch what is to be downloaded: resumed, checked, whole or not there',
    )
    lock: str | None = option(
        None,
        metavar='FILE',
        help='hashes of what was downloaded first, which later downloads must have '
        '(default: DATAPATH/models/parlai_ext.lock.json)',
    )


class CheckRoster(Command):
    """
    Show what a run would still need, without network or a model loaded; or fetch it.

    The exit code is 1 while a system is missing or has to be downloaded.
    """

    declares = (
        *('--config', '--roster', '--pairing', '--add-target'),
        *('--judge-model-file', '--datapath'),
        DownloadOptions,
    )

    @classmethod
    def execute(cls, opt: Mapping[str, Any]) -> Any:
        resolutions = super().execute(opt)
        counts = Counter(r.status for r in resolutions)
        n_absent = len(resolutions) - counts['present']
        if n_absent:
            fail(
                f'{n_absent} of {len(resolutions)} cannot start offline: '
                f'{counts["missing"]} missing, {counts["download"]} to download'
            )
        return resolutions

    def run(self) -> object:
        """
        Print the systems and return how each was resolved, the judge last.
        """
        rows, info = self.systems()
        from parlai_ext.systems.identity import resolve

        if self.options(DownloadOptions).download:
            self.download([system for _, system in rows])
        resolutions = [resolve(system) for _, system in rows]
        for (role, _), resolution in zip(rows, resolutions, strict=True):
            print_lines(system_lines(role, resolution, info.get(resolution.name)))
        print(totals(resolutions))
        return resolutions

    def download(self, systems: Sequence[System]) -> None:
        """
        Download what the systems need; print for each what was downloaded or why not.
        """
        from parlai_ext.systems.downloads import download_systems
        from parlai_ext.systems.fetch.checked_downloads import (
            DownloadSettings,
            downloading,
        )

        lock = self.options(DownloadOptions).lock
        with downloading(DownloadSettings(Path(lock) if lock else None)):
            results = download_systems(systems)
        for result in results:
            print_lines(f'{result.system}: downloaded {file}' for file in result.files)
            print_lines(filter(None, [result.reason]))

    def systems(self) -> tuple[list[RoleAndSystem], Mapping[str, SystemInfo]]:
        """
        Return the systems with their roles, and the roster's notes on each.
        """
        from parlai_ext.scoring.registry import load_protocol_file

        opt = self.opt
        more = [parse_target(spec) for spec in opt['add_target'] or ()]
        added = [system for system, _ in more]
        added_info = {system.name: about for system, about in more}
        roster, judge = Roster(()), list[System]()
        info: Mapping[str, SystemInfo] = {}
        if opt['config']:
            from parlai_ext.scoring.score_run import ChosenScorer

            keys = ('roster', 'pairing', 'judge_model_file')
            file = load_protocol_file(opt['config'], {key: opt[key] for key in keys})
            roster, info = file.protocol.roster, file.info
            judge = ChosenScorer(file.protocol.scorer).model_systems()
        elif opt['roster']:
            listed = load_roster(opt['roster'])
            roster, info = listed.roster, listed.info
        elif not added:
            raise UserError('--config, --roster or --add-target is needed')
        roles = {
            'target': (*roster.targets, *added),
            'partner': roster.partners,
            'judge': judge,
        }
        rows = [(role, system) for role, some in roles.items() for system in some]
        return rows, {**added_info, **info}


def system_lines(
    role: str, resolution: Resolution, info: SystemInfo | None
) -> list[str]:
    """
    Return the lines to print about one system.
    """
    missing = resolution.status == 'missing'
    params = size = '?'
    if resolution.params is not None and resolution.bytes is not None:
        params = f'{resolution.params / 1e6:,.1f}M'
        size = data_size(resolution.bytes)
    lines = [
        f'{role:<8}{resolution.name:<22}{resolution.status:<10}'
        f'{params:>9}{size:>10}  '
        f'{resolution.reason if missing else resolution.where}'
    ]
    lines += resolution.besides
    if missing and '://' in resolution.where:
        lines.append(f'its weights come from {resolution.where}')
    if info and info.notes and missing:
        lines.append(info.notes)
    if info and info.guess:
        others = ', '.join(map(str, info.alternatives))
        doubt = f'a guess; confidence {info.confidence or "unknown"}'
        lines.append(doubt + (f'; or it is {others}' if others else ''))
    return lines[:1] + [' ' * 8 + line for line in lines[1:]]


def totals(resolutions: Sequence[Resolution]) -> str:
    """
    Return how many there are of each kind, and what they take together.
    """
    counts = Counter(r.status for r in resolutions)
    sizes = [r.bytes for r in resolutions if r.bytes is not None]
    unknown = len(resolutions) - len(sizes)
    return (
        f'{len(resolutions)} in all: {counts["present"]} present, '
        f'{counts["download"]} to download, {counts["missing"]} missing; weights in '
        f'float32 {data_size(sum(sizes))} together, '
        f'{data_size(max(sizes, default=0))} the largest (half of it in float16)'
        + (f'; size of {unknown} unknown' if unknown else '')
    )
