"""
Every system of a protocol, and its judge: present, to download, or missing and why.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlai_ext.commands.command import Command, fail, print_lines
from parlai_ext.core import (
    JsonObject,
    Roster,
    System,
    UserError,
    frozen,
    option,
    optional,
)
from parlai_ext.files import SystemInfo, load_roster, parse_target
from parlai_ext.store import NO_TARGETS
from parlai_ext.view.page import print_report


@frozen
class DownloadOptions:
    """
    Whether what is missing is fetched.
    """

    download: bool = option(
        False,
        help='fetch what is to be downloaded: resumed, checked, whole or not there',
    )
    lock: str | None = optional(
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
        '--config',
        '--roster',
        '--pairing',
        '--add-target',
        '--judge-model-file',
        '--datapath',
        DownloadOptions,
    )

    @classmethod
    def execute(cls, opt: JsonObject) -> Any:
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
        from parlai_ext.systems.downloads import download_systems
        from parlai_ext.systems.fetch.checked_downloads import locking_with
        from parlai_ext.systems.identity import resolve

        given = self.options(DownloadOptions)
        if given.download:
            lock = Path(given.lock) if given.lock else None
            with locking_with(lock):
                results = download_systems([system for _, system in rows])
            for one in results:
                print_lines(f'{one.system}: downloaded {file}' for file in one.files)
                print_lines(filter(None, [one.reason]))
        resolutions = [resolve(system) for _, system in rows]
        shown = [
            (role, resolution, info.get(resolution.name))
            for (role, _), resolution in zip(rows, resolutions, strict=True)
        ]
        counts = Counter(one.status for one in resolutions)
        print_report('roster', rows=shown, counts=counts)
        return resolutions

    def systems(self) -> tuple[list[tuple[str, System]], Mapping[str, SystemInfo]]:
        """
        Return the systems with their roles, and the roster's notes on each.
        """
        from parlai_ext.scoring.registry import load_protocol_file

        opt = self.opt
        added = [parse_target(spec) for spec in opt['add_target'] or ()]
        info = {system.name: about for system, about in added}
        roster, judge = Roster(()), list[System]()
        if opt['config']:
            from parlai_ext.scoring.score_run import ChosenScorer

            keys = ('roster', 'pairing', 'judge_model_file')
            file = load_protocol_file(opt['config'], {key: opt[key] for key in keys})
            roster, info = file.protocol.roster, {**info, **file.info}
            judge = ChosenScorer(file.protocol.scorer).model_systems()
        elif opt['roster']:
            listed = load_roster(opt['roster'])
            roster, info = listed.roster, {**info, **listed.info}
        elif not added:
            raise UserError('--config, --roster or --add-target is needed')
        roles = {
            'target': (*roster.targets, *(system for system, _ in added)),
            'partner': roster.partners,
            'judge': judge,
        }
        if not roles['target']:
            raise UserError(NO_TARGETS)
        rows = [(role, system) for role, some in roles.items() for system in some]
        return rows, info
