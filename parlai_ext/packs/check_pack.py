"""
A pack checked as a whole: its files, what follows from them, and what can be made again
with the checker's own protocol.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.packs.options import RegenerateOptions
from parlai_ext.packs.pack import Pack, PackIndex, read_index, read_run, unpacked
from parlai_ext.packs.regenerate import Again, Checker, Regeneration
from parlai_ext.packs.verify import (
    WRONG,
    PackFinding,
    content_findings,
    file_finding,
    finding_of,
)
from parlai_ext.scoring.registry import load_protocol_file

MOST_DRAWS = 2**31  # seeds to draw from


@dataclass(frozen=True)
class Verification:
    """
    What is known of a pack after its check.

    :param draw: the seed by which dialogues and utterances were drawn.
    """

    path: Path
    id: str
    index: PackIndex
    findings: tuple[PackFinding, ...]
    again: Again = field(default_factory=Again)
    draw: int = 0

    @property
    def problems(self) -> list[str]:
        """
        All that is wrong, each with the part that it is in.
        """
        return [f'{f.about}: {line}' for f in self.findings for line in f.problems]

    @property
    def is_right(self) -> bool:
        """
        True if nothing is wrong.
        """
        return all(finding.state != WRONG for finding in self.findings)


def check_pack(
    path: str | Path,
    options: RegenerateOptions | None = None,
    checker: Checker | None = None,
) -> Verification:
    """
    Check a pack.

    :param checker: `None` makes nothing again.
    :raises UserError: for a file that is no pack.
    """
    options, file = options or RegenerateOptions(), Path(path)
    draw = options.draw if options.draw is not None else secrets.randbelow(MOST_DRAWS)
    again = Again()
    with unpacked(file) as folder:
        index, pack_id = read_index(folder, file)
        findings = [file_finding(folder, index)]
        try:
            run = read_run(folder, file)
        except UserError as error:
            line = str(error).removeprefix(f'{file}: ')
            findings.append(finding_of('manifest', '', [line]))
        else:
            findings += content_findings(folder, index, run, file)
            if all(finding.state != WRONG for finding in findings):
                pack = Pack(file, pack_id, index, run)
                if checker is None or not options.any:
                    checker, options = Checker(Machine()), RegenerateOptions()
                elif checker.protocol is None and (
                    # a path in a pack is no shipped protocol
                    index.protocol in zoo_configs.names('protocols')
                ):
                    shipped = load_protocol_file(index.protocol).protocol
                    checker = replace(checker, protocol=shipped)
                findings += Regeneration(pack, options, checker, draw, again).findings()
            else:
                text = 'nothing, since what is there is wrong'
                findings.append(PackFinding('made again', text))
    return Verification(file, pack_id, index, tuple(findings), again, draw)
