"""
`parlai doctor`: checks the installation and names the command that solves a problem.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from parlai_ext import __version__
from parlai_ext.commands.command import Command
from parlai_ext.commands.installation import Finding, findings, version_of


class Doctor(Command):
    """
    Prints each problem with the command that solves it; exit code 1 if there is one.
    """

    description = (
        'Name what is missing, too new or hidden, and the command that solves it'
    )

    def run(self) -> list[Finding]:
        results = findings()
        for finding in results:
            print(f'{"wrong" if finding.wrong else "note"}: {finding.problem}')
            print(f'    {finding.solution}')
        if not any(f.wrong for f in results):
            names = ('parlai', 'torch', 'transformers', 'numpy')
            versions = ', '.join(f'{name} {version_of(name)}' for name in names)
            version = sys.version.split()[0]
            print(
                f'all is well: parlai_ext {__version__}, {versions}, Python {version}'
            )
        return results

    @classmethod
    def execute(cls, opt: Mapping[str, Any]) -> list[Finding]:
        results: list[Finding] = super().execute(opt)
        if any(f.wrong for f in results):
            raise SystemExit(1)
        return results
