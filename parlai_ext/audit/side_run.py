"""
A small run beside the audited one: further systems meet the run's partners, or the
run's targets meet a further partner, over some of the run's openers.

It is a run folder of its own, below `audit/` in the run's, collected and scored by the
same functions, so that it goes on where it was killed. Its ranking is none of the
run's.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from parlai_ext.audit.audited import Audited
from parlai_ext.audit.options import AuditOptions, NamedByUser
from parlai_ext.collect.plan import build_manifest, refuse_collecting, resolve_protocol
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import Roster, System
from parlai_ext.core.signature import signature_differences
from parlai_ext.isolation.own_records import (
    CONFIG,
    is_own_scorer,
    named_parts,
    note_parts,
)
from parlai_ext.ranking.table import Floats
from parlai_ext.results.tables import ScoreTables, read_tables
from parlai_ext.scoring.base import Scorer
from parlai_ext.store import RunFolder
from parlai_ext.store.manifest import Manifest, record_hash
from parlai_ext.store.plan import system_part
from parlai_ext.worlds.schedule import pairings, shard_size_for

if TYPE_CHECKING:
    from collections.abc import Iterator


FOLDER = 'audit'


class NotPlayed(UserError):
    """
    Why nothing can be played for an audit; the checks that need it are left out.
    """


@dataclass(frozen=True)
class SidePlayer:
    """
    What plays and judges side runs: the machine, and the scorer of the audited scores.
    """

    audited: Audited
    machine: Machine
    num_openers: int
    scorer: Scorer

    @classmethod
    def build(
        cls,
        audited: Audited,
        machine: Machine,
        options: AuditOptions,
        named: NamedByUser,
    ) -> SidePlayer:
        """
        Load the scorer of the audited scores, if the user named what it asks and runs:
        in this command or when it scored.

        :raises NotPlayed: when nothing can be played, or this is another scorer now.
        """
        from parlai_ext.scoring.score_run import (
            build_scorer,
            require_named_scorer,
            score_signature,
        )

        manifest = audited.run.manifest
        with left_out_if_refused():
            refuse_collecting(audited.run)
            if audited.num_openers < 3:
                raise UserError('fewer than three openers give no interval')
            about = audited.run.scores(audited.scores.scorer_signature).about()
            section = about.get('config') or manifest.protocol.scorer
            is_own = (
                CONFIG in named_parts(record_hash(about))
                if about.get('config')
                else is_own_scorer(manifest)
            )
            if not is_own and section != named.scorer:
                name = section.get('name')
                given = {'name': name} if name == options.scores else {}
                require_named_scorer(section, given)
            scorer = build_scorer(section, machine, named_by_user=True)
            signature = score_signature(scorer, bool(about.get('given')))
            then = audited.scores.scorer_signature
            if signature != then:
                [first, *_] = signature_differences(then, signature)
                raise UserError(
                    f'the scorer is not the one that made the scores: {first}'
                )
        size = min(options.audit_openers, audited.num_openers)
        return cls(audited, machine, size, scorer)

    @property
    def is_self_play(self) -> bool:
        """
        True if the run's targets talk with themselves.
        """
        return self.audited.plan.protocol.pairing == 'self_play'

    @property
    def partners(self) -> tuple[System, ...]:
        """
        The systems that a further target meets: those that the run's targets meet.
        """
        if self.is_self_play:
            return ()
        roster = self.audited.plan.roster
        return tuple(roster.system(name) for name in self.audited.opponents)

    def play(
        self, folder: str, targets: Sequence[System], partners: Sequence[System]
    ) -> ScoreTables:
        """
        Play and score what is missing of a side run; return its scores.

        :raises NotPlayed: when a system cannot be had or is another one now.
        """
        from parlai_ext.collect.collect import collect
        from parlai_ext.scoring.score_run import score_run

        about = self.audited.run.scores(self.audited.scores.scorer_signature).about()
        with left_out_if_refused():
            manifest = self._manifest(targets, partners)
            root = self.audited.run.root / FOLDER / f'{self.num_openers}-openers'
            run = RunFolder.open(root / folder, manifest)
            # these were resolved, so they may be used; a manifest that lay there
            # already may hold others
            note_parts(run.manifest, map(system_part, manifest.systems))
            with run.lock():
                problems = collect(run, self.machine).problems
                if problems:
                    raise UserError(problems[0])
                report = score_run(
                    run,
                    self.scorer,
                    include_given=bool(about.get('given')),
                    config=about.get('config') or {},
                )
                return read_tables(run, report.signature)

    def _manifest(
        self, targets: Sequence[System], partners: Sequence[System]
    ) -> Manifest:
        """
        Return the manifest of a side run.
        """

        plan, manifest = self.audited.plan, self.audited.run.manifest
        protocol = replace(
            plan.protocol,
            name=f'{plan.protocol.name}-audit',
            pairing='self_play' if self.is_self_play else 'bipartite',
            num_dialogues=self.num_openers,
            roster=Roster(tuple(targets), tuple(partners)),
            reference={},
            reference_kind=None,
        )
        resolved = resolve_protocol(protocol, {}, False)
        known = manifest.everybody
        for name, identity in resolved.identities.items():
            if name in known and known[name].identity != identity:
                raise UserError(
                    f'{name} is not the system that this run has dialogues of: its '
                    'options or files have changed'
                )
        return build_manifest(
            resolved,
            pairings(resolved.protocol.roster, protocol.pairing, resolved.identities),
            plan.openers[: self.num_openers],
            shard_size_for(self.num_openers, manifest.batchsize),
            batchsize=manifest.batchsize,
            fp16=manifest.collect.get('fp16'),
            asked={'audit_of': plan.protocol.name},
        )

    def values(self, tables: ScoreTables, targets: Sequence[str]) -> Floats:
        """
        Return ``[target, opponent, opener]`` of these targets of a side run, opponents
        in the order of the audited run.
        """
        rows = [tables.systems.index(name) for name in targets]
        columns = [tables.opponents.index(name) for name in self.audited.opponents]
        return tables.scores[self.audited.dimension][rows][:, columns]


@contextmanager
def left_out_if_refused() -> Iterator[None]:
    """
    Turn a refusal into the reason why something is left out.
    """
    try:
        yield
    except NotPlayed:
        raise
    except UserError as error:
        raise NotPlayed(str(error)) from error
