"""
What a run plays: its schedule, and who of each pair is judged.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from parlai_ext.core.nouns import Opener, Pairing, Recorded, Roster, System
from parlai_ext.core.protocol import Protocol
from parlai_ext.store.manifest import Manifest, record_hash
from parlai_ext.worlds.pairings import IMPORTED, PairingScheme
from parlai_ext.worlds.schedule import Schedule


@dataclass(frozen=True)
class Plan(Schedule):
    """
    What a run will do; `left_out` names systems dropped by ``--skip-missing``.
    """

    manifest: Manifest
    left_out: tuple[str, ...] = ()

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Plan:
        """
        Return the plan of a run that is there.
        """
        return cls(
            protocol_of(manifest),
            manifest.pairings,
            manifest.openers or numbered_openers(manifest),
            manifest.shard_size,
            manifest.batchsize,
            manifest.grown_from,
            manifest,
        )

    @property
    def scheme(self) -> PairingScheme:
        """
        The scheme by which the systems are paired.
        """
        return self.manifest.scheme

    @property
    def both_judged(self) -> bool:
        """
        True if both speakers are judged and every pair also plays with the roles
        swapped.
        """
        return self.scheme.swaps_roles and not self.manifest.first_only

    @property
    def opponents(self) -> tuple[str, ...]:
        """
        The systems that targets talk with, ``itself`` in self-play.
        """
        return self.scheme.opponents(
            [system.name for system in self.roster.targets],
            [system.name for system in self.roster.partners],
            [pairing.speakers for pairing in self.pairings],
        )

    def judged_sides(self, pairing: Pairing) -> tuple[Pairing, ...]:
        """
        Return the pairing once for each judged speaker, who comes first.
        """
        both = self.both_judged or not self.scheme.is_played
        if not both or pairing.first == pairing.second:
            return (pairing,)
        return pairing, replace(pairing, first=pairing.second, second=pairing.first)


def protocol_of(manifest: Manifest) -> Protocol:
    """
    Return the protocol of a manifest, its roster with it; its systems know that they
    were read from a record.
    """
    digest = record_hash(manifest)
    targets, partners = (
        tuple(
            System(name, manifest.systems[name], Recorded(digest, system_part(name)))
            for name in names
        )
        for names in (manifest.targets, manifest.partners)
    )
    record = manifest.protocol
    given = {
        field.name: getattr(record, field.name)
        for field in fields(Protocol)
        if field.name in record.model_fields_set
    }
    return Protocol(**given, roster=Roster(targets, partners))


def system_part(name: str) -> str:
    """
    Return the name of the part of a manifest that holds a system's options.
    """
    return f'systems.{name}'


def numbered_id(number: int) -> str:
    """
    Return the id of the placeholder for the opener of the n-th imported dialogue of two
    systems.
    """
    return f'{IMPORTED}-{number:06d}'


def numbered_openers(manifest: Manifest) -> tuple[Opener, ...]:
    """
    Return placeholders for the openers of imported dialogues, whose own are unknown;
    none for any other run. Intervals take such dialogues to be independent.
    """
    n = manifest.imported.dialogues_a_pair if manifest.imported else 0
    return tuple(Opener(numbered_id(i), (), IMPORTED) for i in range(n))
