"""
A pack checked as a whole: its files, what follows from them, and what can be made again
with the checker's own protocol.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Opener, System
from parlai_ext.core.protocol import Protocol
from parlai_ext.packs.options import RegenerateOptions
from parlai_ext.packs.pack import Pack, PackIndex, read_index, read_run, unpacked
from parlai_ext.packs.regenerate import (
    Again,
    check_judge_again,
    play_again,
    score_again,
    signature_at_hand,
    systems_at_hand,
)
from parlai_ext.packs.verify import (
    SELF_REPORTED,
    WRONG,
    Finding,
    content_findings,
    file_finding,
    finding_of,
)
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.scoring.score_run import build_scorer

MOST_DRAWS = 2**31  # seeds to draw from


@dataclass(frozen=True)
class Checker:
    """
    What the one who checks has: a protocol with systems and a scorer, more systems, and
    a machine. `protocol` is `None` for the shipped one of the pack's name.
    """

    machine: Machine
    protocol: Protocol | None = None
    systems: tuple[System, ...] = ()
    openers_file: str | None = None


@dataclass(frozen=True)
class Verification:
    """
    What is known of a pack after its check.

    :param draw: the seed by which dialogues and utterances were drawn.
    """

    path: Path
    id: str
    index: PackIndex
    findings: tuple[Finding, ...]
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
                findings += _made_again(pack, options, checker, draw, again)
            else:
                text = 'nothing, since what is there is wrong'
                findings.append(Finding('made again', SELF_REPORTED, text))
    return Verification(file, pack_id, index, tuple(findings), again, draw)


def _made_again(
    pack: Pack,
    options: RegenerateOptions,
    checker: Checker | None,
    draw: int,
    again: Again,
) -> Iterator[Finding]:
    """
    Yield what was played and scored again.
    """
    if checker is None or not options.any:
        checker, options = None, RegenerateOptions()
    elif checker.protocol is None:
        checker = replace(checker, protocol=_shipped_protocol(pack.index.protocol))
    if checker is not None and checker.protocol is None and not checker.systems:
        why = f'there is no protocol {pack.index.protocol!r} here; name one: --config'
        yield Finding('played again', SELF_REPORTED, why)
        yield Finding('scored again', SELF_REPORTED, why)
        yield Finding('checked again', SELF_REPORTED, why)
        return
    here: dict[str, System] = {}
    missing: dict[str, str] = {}
    if checker is not None and options.regenerate:
        mine = [*_own_systems(checker), *checker.systems]
        here, missing = systems_at_hand(pack, mine, checker.machine.datapath)
    machine = checker.machine if checker else Machine()
    openers = _openers(pack, checker) if options.regenerate else {}
    yield play_again(pack, here, missing, openers, options, machine, draw, again)
    scorer, why = None, ''
    if checker is not None and (options.sample or options.judge_check):
        scorer, why = _scorer_at_hand(pack, checker)
    yield score_again(pack, scorer, why, options, draw, again)
    yield check_judge_again(pack, scorer, why, options)


def _shipped_protocol(name: str) -> Protocol | None:
    """
    Return the shipped protocol of this name; a path in a pack is none.
    """
    folder = zoo_configs.path('protocols', 'demo').parent
    if name not in {path.stem for path in folder.glob('*.yaml')}:
        return None
    return load_protocol_file(name).protocol


def _own_systems(checker: Checker) -> Sequence[System]:
    if checker.protocol is None:
        return ()
    return checker.protocol.roster.targets + checker.protocol.roster.partners


def _openers(pack: Pack, checker: Checker | None) -> dict[str, Opener]:
    """
    Return the texts of the checker's own openers by id, for a pack that withholds them.
    """
    if checker is None or checker.protocol is None or not pack.index.withheld_text:
        return {}
    from parlai_ext.systems.openers import load_openers

    task, file = checker.protocol.openers, checker.openers_file
    openers = load_openers(task, file, datapath=checker.machine.datapath)
    return {opener.id: opener for opener in openers}


def _scorer_at_hand(pack: Pack, checker: Checker) -> tuple[Scorer | None, str]:
    """
    Return the checker's own scorer if it makes scores of the pack; else why not.
    """
    if checker.protocol is None:
        return None, 'there is no protocol here that names a scorer (--config)'
    try:
        section = checker.protocol.scorer
        scorer = build_scorer(section, checker.machine, named_by_user=True)
        signature_at_hand(pack, scorer)
    except UserError as error:
        return None, str(error)
    return scorer, ''
