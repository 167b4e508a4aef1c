"""
`parlai doctor`: what is missing, too new or hidden here, and how to mend it.
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
    Prints one finding and one command at a time; exit code 1 if something is wrong.
    """

    description = (
        'Name what is missing, too new or hidden, and the command that mends it'
    )

    def run(self) -> list[Finding]:
        found = findings()
        for finding in found:
            print(f'{"wrong" if finding.wrong else "note"}: {finding.what}')
            print(f'    {finding.mend}')
        if not any(f.wrong for f in found):
            names = ('parlai', 'torch', 'transformers', 'numpy')
            versions = ', '.join(f'{name} {version_of(name)}' for name in names)
            version = sys.version.split()[0]
            print(
                f'all is well: parlai_ext {__version__}, {versions}, Python {version}'
            )
        return found

    @classmethod
    def execute(cls, opt: Mapping[str, Any]) -> list[Finding]:
        found: list[Finding] = super().execute(opt)
        if any(f.wrong for f in found):
            raise SystemExit(1)
        return found
