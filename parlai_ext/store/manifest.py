"""
The manifest of a run: what it holds, and what may change when the run is continued.

It is read and checked once; all else takes its attributes. Settings of collecting and
scoring may not change, nor may any system that the run has already; targets may be
added, and dialogues over more openers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_serializer, model_validator

from parlai_ext.core import (
    JsonObject,
    JudgeModel,
    Opener,
    Pairing,
    Recorded,
    Roster,
    System,
    UserError,
    bytes_hash,
    change_lines,
    content_id,
    frozen,
    given_options,
    logger,
    parse_own_json,
    signature_line,
)
from parlai_ext.core.protocol import (
    IMPORTED,
    MOST_DIALOGUES,
    SCHEMES,
    PairingScheme,
    Protocol,
    ProtocolOptions,
)
from parlai_ext.core.records import (
    Number,
    Record,
    WholeNumber,
    WrongType,
    read_record,
    record_to_json,
)
from parlai_ext.files import is_texts
from parlai_ext.store.disk import (
    as_read,
    dumps,
    sealed_text,
    without_checksum,
    write_file,
)
from parlai_ext.worlds.schedule import Schedule

SCHEMA = 1
NAME = 'manifest.json'
BATCHSIZE = 64
# of the protocol of a run that is played
PLAYED_KEYS = ('pairing', 'openers', 'num_dialogues', 'num_turns', 'seed')
# what else may be done about settings that begin so
HINTS = {
    'content': '; content is a hash of the dialogues, as the options have them read',
    'score': '; score_dialogues judges the dialogues that are there by another scorer',
    'targets.': '; a target whose options, files or code (identity) are others than '
    'those that it talked with joins the run under another name',
}
# the keys of a manifest that say what is loaded and asked, and of the record of scores
ACTING_KEYS = ('protocol', 'systems', 'targets', 'partners', 'signature', 'config')
_SAFE_ID = re.compile('[A-Za-z0-9_-]{1,120}')
Count = Annotated[WholeNumber, Field(ge=1, le=MOST_DIALOGUES)]
_SECTIONS = ('scorer', 'ranking', 'reference', 'reference_kind')


class SystemRecord(Record):
    """
    What the dialogues of a target or a partner depend on.

    `identity` is the hash of what it is, `options` has those of a partner that the
    signature names, and `candidates` is a hash of the replies that a retriever chooses
    among. `shard_size` and `grown_from` are there where the system samples: the shard
    is its unit of randomness.
    """

    identity: str
    options: JsonObject = {}
    shard_size: WholeNumber | None = None
    grown_from: tuple[WholeNumber, ...] | None = None
    candidates: str | None = None


class ProtocolRecord(Record):
    """
    The protocol of a run, without its roster. Openers, number of dialogues and seed of
    imported dialogues are unknown.
    """

    name: str
    pairing: str = 'bipartite'
    openers: str | None = None
    num_dialogues: WholeNumber | None = None
    num_turns: WholeNumber = 12
    score: str = 'target'
    seed: WholeNumber | None = None
    scorer: JsonObject = {}
    ranking: JsonObject = {}
    reference: dict[str, dict[str, Number]] = {}
    reference_kind: Literal['human', 'planted'] | None = None


class ImportRecord(Record):
    """
    How the dialogues of a run were imported, and what was left out.

    `dialogues` is how many there are, and `content` a hash of them.
    """

    format: str
    dialogues: WholeNumber
    content: str
    files: dict[str, str]
    dialogues_a_pair: Count
    left_out: WholeNumber
    bad_rows: WholeNumber
    people_only: WholeNumber
    silent: dict[str, WholeNumber]


class StopRecord(Record):
    """
    How a run that stops when it is settled came to its number of openers.
    """

    rule: str
    dimension: str
    margin: Number
    planned: WholeNumber
    used: WholeNumber
    reason: str
    scores: str


class CorporaRecord(Record):
    """
    The corpora that numbers behind scores name by their places, and from what nearness
    on a response is like them.
    """

    names: tuple[str, ...]
    threshold: Number


class ScorerRecord(Record):
    """
    What lies beside scores about the scorer that made them; a record that is missing
    says nothing.

    `config` is the ``scorer:`` section (empty: that of the protocol, as far as is
    known) and `ranking` the rule that came with it, `code` has the file and the sha256
    of a scorer from outside the package, and `unit` says what a score counts.
    """

    signature: str = ''
    dimensions: tuple[str, ...] = ()
    evidence_labels: tuple[str, ...] = ()
    unit: str = ''
    corpora: CorporaRecord | None = None
    config: JsonObject = {}
    given: bool = False
    models: tuple[JudgeModel, ...] = ()
    ranking: JsonObject = {}
    code: dict[str, str] | None = None

    def to_json(self) -> dict[str, object]:
        """
        Return what its file holds.
        """
        return self.model_dump(exclude_unset=True)


class Manifest(Record):
    """
    Everything that must be equal when a run goes on, and notes for its reader.

    `settings` and the scorer may not change; `targets` may grow. The `systems` say how
    to build each system again and are not compared: a model file may move, its content
    (in `identity`) may not.

    The keys from `guessed` to `families` are notes. `asked` has the options that the
    run came about by, `guessed` the systems of which the paper does not say exactly
    what they are, `left_out` those that could not be had, `trusted` the hashes of model
    files that might run code when read, and `families` what rosters declare systems to
    be akin to.
    """

    protocol: ProtocolRecord
    targets: dict[str, SystemRecord]
    partners: dict[str, SystemRecord]
    systems: dict[str, JsonObject]
    pairings: tuple[Pairing, ...]
    openers: tuple[Opener, ...]
    shard_size: Count
    grown_from: tuple[WholeNumber, ...] = ()
    batchsize: Count = BATCHSIZE
    fp16: bool | None = None
    guessed: tuple[str, ...] = ()
    asked: dict[str, Any] = {}
    left_out: tuple[str, ...] = ()
    trusted: dict[str, str] = {}
    families: dict[str, str] = {}
    imported: ImportRecord | None = None
    versions: dict[str, str]
    signature: str
    stop: StopRecord | None = None

    @property
    def scheme(self) -> PairingScheme:
        """
        The scheme by which the systems are paired.
        """
        return SCHEMES[self.protocol.pairing]

    @property
    def everybody(self) -> dict[str, SystemRecord]:
        """
        The targets and partners.
        """
        return {**self.targets, **self.partners}

    @property
    def people(self) -> frozenset[str]:
        """
        The partners who are people, and so are not judged.
        """
        return frozenset(() if self.scheme.is_played else self.partners)

    @property
    def first_only(self) -> bool:
        """
        True if only the utterances of first speakers are judged.
        """
        return self.protocol.score != 'both'

    def settings(
        self,
        openers: Sequence[Opener] | None = None,
        grown_from: Sequence[int] | None = None,
    ) -> dict[str, object]:
        """
        Return what dialogues depend on, the targets apart, as a flat map: of ParlAI's
        metadata, and of the signature.

        :param openers: those of another time of the run, when it had `grown_from`.
        """
        protocol, imported = self.protocol, self.imported
        if imported is not None:
            return {
                'pairing': protocol.pairing,
                'dialogues': imported.dialogues,
                'content': imported.content,
                **dict.fromkeys(('openers', 'decoding', 'seed'), 'unknown'),
            }
        keys: dict[str, object] = {
            'pairing': protocol.pairing,
            'openers': protocol.openers,
            'openers.content': content_id([o.id for o in openers or self.openers]),
            'num_dialogues': len(openers) if openers else protocol.num_dialogues,
            'num_turns': protocol.num_turns,
            'seed': protocol.seed,
        }
        for name, partner in self.partners.items():
            start = f'partners.{name}'
            keys[start] = partner.identity
            keys |= {f'{start}.{key}': value for key, value in partner.options.items()}
            if partner.candidates is not None:
                keys[f'{start}.candidates'] = partner.candidates
        if self.fp16 is not None:
            keys['fp16'] = self.fp16
        if any(partner.shard_size for partner in self.partners.values()):
            keys['shard_size'] = self.shard_size
            if stages := self.grown_from if grown_from is None else grown_from:
                keys['grown_from'] = list(stages)
        return keys

    def fixed_settings(self, *then: Any) -> dict[str, object]:
        """
        Return what may not change when the run goes on, the targets apart.

        :param then: as for `settings`.
        """
        return {
            **self.settings(*then),
            'score': self.protocol.score,
            'scorer': self.protocol.scorer,
            'shard_size': self.shard_size,
        }

    def partner_settings(self) -> dict[str, object]:
        """
        Return those of the settings that are about partners.
        """
        return {k: v for k, v in self.settings().items() if k.startswith('partners.')}

    @property
    def partner_lock(self) -> str:
        """
        The hash of all that is known of the partners.
        """
        return content_id(dict(sorted(self.partner_settings().items())))

    @property
    def openers_hash(self) -> str:
        """
        The hash of the openers' ids in order; each is a hash of its text.
        """
        return content_id([opener.id for opener in self.openers])

    def dialogue_signature(self) -> str:
        """
        Return the part of the signature that says how dialogues arise, as one line.
        """
        partners = self.partner_settings()
        made_by = self.versions.get('parlai_ext', 'absent')
        return signature_line(
            {
                'protocol': self.protocol.name,
                'parlai_ext': made_by,
                **{k: v for k, v in self.settings().items() if k not in partners},
                'partners': partners,
            }
        )

    @field_serializer('openers')
    def _opener_records(self, openers: tuple[Opener, ...]) -> Any:
        return record_to_json(openers)

    def to_json(self) -> dict[str, object]:
        """
        Return the manifest as its file holds it, without secrets.
        """
        return {'schema': SCHEMA, **as_read(self.model_dump(exclude_unset=True))}

    @property
    def digest(self) -> str:
        """
        The hash of all that it holds.
        """
        return content_id(self.to_json())

    def changed(self, **values: Any) -> 'Manifest':
        """
        Return the manifest with other values, checked anew.
        """
        return read_manifest({**self.to_json(), **values})

    @model_validator(mode='after')
    def _check(self) -> 'Manifest':
        """
        Refuse values that do not fit each other.
        """
        self._check_protocol()
        if self.imported is None and not self.openers:
            raise WrongType('openers: a run has one at least')
        for name in self.everybody:
            if name not in self.systems:
                raise WrongType(f'systems.{name} is missing')
            if name in self.targets and name in self.partners:
                raise WrongType(f'partners.{name}: it is a target, too')
        self._check_pairings()
        _refuse_repeated('openers', [opener.id for opener in self.openers])
        if self.imported is None and 'batchsize' not in self.model_fields_set:
            raise WrongType('batchsize is missing')
        stages = (0, *self.grown_from, max(1, len(self.openers)))
        if any(late <= early for early, late in pairwise(stages)):
            raise WrongType('grown_from: these are no numbers of openers that grew')
        for key in ('dialogues', 'add_target'):
            values = self.asked.get(key, [])
            if not is_texts(values):
                raise WrongType(
                    f'asked.{key}: a list of texts expected, not {values!r:.60}'
                )
        return self

    def _check_protocol(self) -> None:
        """
        Refuse values that a protocol does not allow.
        """
        given = self.protocol.model_dump(exclude_unset=True, exclude={*_SECTIONS})
        if (self.imported is not None) != (given.get('pairing') == IMPORTED):
            raise WrongType(
                f'protocol.pairing: {IMPORTED} goes with the key {IMPORTED!r}'
            )
        if self.imported is not None:
            del given['pairing']
        elif lacking := [key for key in PLAYED_KEYS if key not in given]:
            raise WrongType(f'protocol.{lacking[0]} is missing')
        if empty := [key for key, value in given.items() if value is None]:
            raise WrongType(f'protocol.{empty[0]}: a value expected, not None')
        given_options(
            ProtocolOptions,
            given,
            error=lambda key, problem: WrongType(f'protocol.{key}: {problem}'),
        )
        scorer = self.protocol.scorer.get('name', '')
        if not isinstance(scorer, str):
            raise WrongType(
                f'protocol.scorer.name: a text expected, not {scorer!r:.60}'
            )

    def _check_pairings(self) -> None:
        """
        Refuse a pairing of systems that the run does not have, or by no scheme.
        """
        for i, pairing in enumerate(self.pairings):
            if not _SAFE_ID.fullmatch(pairing.id):
                raise WrongType(
                    f'pairings[{i}].id: {pairing.id!r} cannot be a pairing id'
                )
            if pairing.scheme not in SCHEMES:
                raise WrongType(f'pairings[{i}].scheme: there is no {pairing.scheme!r}')
            for key in ('first', 'second'):
                name = getattr(pairing, key)
                if name not in self.everybody:
                    raise WrongType(f'pairings[{i}].{key}: there is no system {name!r}')
        _refuse_repeated('pairings', [pairing.id for pairing in self.pairings])


def _refuse_repeated(key: str, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for i, id in enumerate(ids):
        if id in seen:
            raise WrongType(f'{key}[{i}].id: {id!r} is there twice')
        seen.add(id)


def read_manifest(data: Mapping[str, object]) -> Manifest:
    """
    Return JSON data as a manifest, whatever its schema.

    :raises WrongType: names the first key that does not fit.
    """
    return read_record(Manifest, {k: v for k, v in data.items() if k != 'schema'})


def record_hash(record: Manifest | ScorerRecord) -> str:
    """
    Return the sha256 of what a manifest, or the record beside scores, would have loaded
    and asked. Notes that are written into a manifest later do not change it.
    """
    data = record.to_json()
    acting = {key: data[key] for key in ACTING_KEYS if key in data}
    return bytes_hash(dumps(acting, sort_keys=True).encode())


def save(root: Path, manifest: Manifest) -> None:
    """
    Write the manifest, with its checksum.
    """
    write_file(root / NAME, sealed_text(manifest.to_json()).encode())


def load(root: Path) -> Manifest:
    """
    Return the manifest of an existing run.

    :raises UserError: if there is none, or it is damaged, of another version or under a
        pairing scheme that this code does not declare.
    """
    path = root / NAME
    try:
        data = parse_own_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f'{root} is not a run folder: {path} is missing') from None
    except ValueError:
        raise _damaged(path) from None
    if not isinstance(data, dict) or 'schema' not in data:
        raise _damaged(path)
    versions = data.get('versions')
    maker = versions.get('parlai_ext') if isinstance(versions, dict) else None
    needed = f'parlai_ext {maker}' if maker else 'the parlai_ext that wrote it'
    if data['schema'] != SCHEMA:
        raise UserError(
            f'{path} has schema {data["schema"]!r}, this parlai_ext reads schema '
            f'{SCHEMA}; use {needed}'
        )
    protocol = data.get('protocol')
    scheme = protocol.get('pairing') if isinstance(protocol, dict) else None
    try:
        content = without_checksum(data)
        if isinstance(scheme, str) and scheme not in SCHEMES:
            raise UserError(
                f'{path}: the run was made under the pairing scheme {scheme!r:.60}, '
                f'which this parlai_ext lacks (it has {", ".join(SCHEMES)}); use '
                f'{needed}, or add it to PLAYED of parlai_ext/core/protocol.py'
            )
        return read_manifest(content)
    except ValueError as error:
        raise _damaged(path, f': {error}') from None


def _damaged(path: Path, problem: str = '') -> UserError:
    """
    Return the error about a manifest that cannot be read.
    """
    return UserError(
        f'{path} is damaged{problem}; restore it from a copy, or use another --run-dir'
    )


def merge_manifests(old: Manifest, new: Manifest, root: Path) -> Manifest:
    """
    Return the union of a run's manifest and the one that it is continued with. A
    target without any dialogue is as the new one says.

    :raises UserError: names every key that differs and may not.
    """
    talked = {
        name
        for pairing in old.pairings
        if (root / 'dialogues' / pairing.id).exists()
        for name in pairing.speakers
    }
    if changes := _changes(old, new, talked):
        hints = (
            hint
            for key, hint in HINTS.items()
            if all(change.startswith(key) for change in changes)
        )
        raise UserError(
            f'{root} was made with other settings (old → new): {"; ".join(changes)}. '
            f'Set these as they were, or use another --run-dir{"".join(hints)}'
        )
    if old.versions != new.versions:
        logger.warning(
            '%s was begun with other versions: %s, now %s',
            root,
            old.versions,
            new.versions,
        )
    return new.changed(
        targets={**old.targets, **new.targets},
        systems={**old.systems, **new.systems},
        pairings=list({p.speakers: p for p in (*old.pairings, *new.pairings)}.values()),
        versions=old.versions,
    )


def _changes(old: Manifest, new: Manifest, talked: set[str]) -> list[str]:
    """
    Return ``key: old → new`` for everything that may not differ: settings, and the
    systems that both runs have. A run may grow to more openers.

    :param talked: the systems that have a dialogue; other targets may be any.
    """
    n_before = len(old.openers)
    grows = (
        len(new.openers) > n_before
        and new.openers[:n_before] == old.openers
        and new.grown_from == (*old.grown_from, n_before)
    )
    then = (new.openers, new.grown_from) if grows else ()
    lines = change_lines(old.fixed_settings(*then), new.fixed_settings())
    for name in [n for n in old.targets if n in new.targets and n in talked]:
        left_out = {'grown_from'} if grows else None
        before, after = (
            one.targets[name].model_dump(exclude=left_out) for one in (old, new)
        )
        if before != after:
            # with the options, which say more than the hash
            before |= old.systems[name]
            after |= new.systems[name]
            lines += change_lines(before, after, f'targets.{name}')
    if lines:
        return lines
    # a pairing's id changes with its systems, which the lines above name if they can
    before, after = (
        {
            f'{p.scheme}.{p.first}--{p.second}': p.id
            for p in one.pairings
            if talked.issuperset(p.speakers)
        }
        for one in (old, new)
    )
    there = {pair: after.get(pair, id) for pair, id in before.items()}
    return change_lines(before, there, 'pairings')


@frozen
class Plan(Schedule):
    """
    What a run will do; `left_out` names systems dropped by ``--skip-missing``.
    """

    manifest: Manifest
    left_out: tuple[str, ...] = ()

    @classmethod
    def from_manifest(cls, manifest: Manifest, protocol: Protocol) -> 'Plan':
        """
        Return the plan of a manifest and its protocol.
        """
        return cls(
            protocol,
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
