"""
A run on disk: its manifest, its dialogues, and the scores that each scorer gave them.

The manifest says what the run holds, and what may change when the run is continued. It
is read and checked once; all else takes its attributes. Settings of collecting and
scoring may not change, nor may any system that the run has already; targets may be
added, and dialogues over more openers.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, field_serializer, model_validator

from parlai_ext.core import (
    DATA_ERRORS,
    IMPORTED,
    MOST_DIALOGUES,
    SCHEMES,
    Dialogue,
    JsonObject,
    JudgeModel,
    Opener,
    Pairing,
    PairingScheme,
    Protocol,
    ProtocolOptions,
    Recorded,
    Roster,
    ScoredDialogue,
    System,
    UserError,
    bytes_hash,
    bytes_without_secrets,
    change_lines,
    content_id,
    frozen,
    given_options,
    logger,
    parse_own_json,
    record_to_json,
    short_hash,
    shortened,
    signature_line,
)
from parlai_ext.core.records import (
    Number,
    Record,
    WholeNumber,
    WrongType,
    read_record,
    record_from_json,
)
from parlai_ext.files import is_texts
from parlai_ext.store.disk import (
    LEFTOVER,
    LOCK,
    PartialWork,
    as_read,
    damage_error,
    decode,
    decode_shard,
    dialogue_from_record,
    dialogue_record,
    dumps,
    encode_shard,
    locked,
    read_records,
    scored_from_record,
    scored_record,
    sealed_text,
    without_checksum,
    write_file,
    write_text,
)
from parlai_ext.store.schedule import Schedule, ShardKey, stage_shards
from parlai_ext.view.progress import bar_of

SCHEMA = 1
MANIFEST = 'manifest.json'
RESTORE = 'restore it from a copy, or use another --run-dir'
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


def save_manifest(root: Path, manifest: Manifest) -> None:
    """
    Write the manifest, with its checksum.
    """
    write_text(root / MANIFEST, sealed_text(manifest.to_json()))


def load_manifest(root: Path) -> Manifest:
    """
    Return the manifest of an existing run.

    :raises UserError: if there is none, or it is damaged, of another version or under a
        pairing scheme that this code does not declare.
    """
    path = root / MANIFEST
    try:
        data = parse_own_json(path.read_bytes())
        if not isinstance(data, dict) or 'schema' not in data:
            raise ValueError('a mapping with the key schema is expected')
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f'{root} is not a run folder: {path} is missing') from None
    except ValueError as error:
        raise damaged(path, shortened(str(error), 80), RESTORE) from None
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
        raise damaged(path, error, RESTORE) from None


def damaged(path: Path, problem: object, remedy: str) -> UserError:
    """
    Return the error about a file of a run that is not as it was written.

    :param remedy: what would mend it.
    """
    return UserError(f'{path} is damaged: {problem}; {remedy}')


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


T = TypeVar('T')

# --- the run folder -------------------------------------------------------------------

SCORER_FILE = 'scorer.json'
STOPPING_FILE = 'stopping.json'  # the looks at a run that stops when it is settled
REPLIES = 'replies'  # of dialogues that are not written yet
# bytes of files whose records stay in memory: 2,000 to 3,000 dialogues with their
# scores, as many as a page shows, in 35 MB
MOST_HELD = 16_000_000


class RunFolder:
    """
    A run on disk. Reading needs no lock; writing needs `lock`.

    No shard changes once it is there, so `held` has what was read.

    :ivar room: of how many bytes more of its files the records may be held.
    """

    def __init__(self, root: Path, manifest: Manifest):
        self.root = root.absolute()  # whatever folder an agent goes to
        self.manifest = manifest
        self.pairings = manifest.pairings
        self.openers = manifest.openers
        self._numbered = {opener.id for opener in numbered_openers(manifest)}
        self._checksums: dict[ShardKey, str] = {}  # of files that were read whole
        self.held: dict[Path, Any] = {}
        self.room = MOST_HELD
        self._depth = 0

    @cached_property
    def plan(self) -> Plan:
        """
        What the run plays, as its manifest says.
        """
        return Plan.from_manifest(self.manifest, protocol_of(self.manifest))

    @classmethod
    def open(cls, root: str | Path, manifest: Manifest) -> 'RunFolder':
        """
        Begin a run, continue it, or extend it with the manifest's new targets.

        :raises UserError: when the folder holds a run with other settings, something
            else than a run, or is in use.
        """
        root, old = Path(root), None
        with _exclusive(root):
            if (root / MANIFEST).exists():
                old = load_manifest(root)
                manifest = merge_manifests(old, manifest, root)
            elif (root / 'dialogues').exists() or (root / 'scores').exists():
                raise UserError(
                    f'{root} has dialogues or scores but no {MANIFEST}; {RESTORE}'
                )
            if manifest != old:
                save_manifest(root, manifest)
        return cls(root, manifest)

    @classmethod
    def new(cls, root: Path, manifest: Manifest) -> 'RunFolder':
        """
        Begin a run in a folder that nobody else writes to.
        """
        save_manifest(root, manifest)
        return cls(root, manifest)

    @classmethod
    def existing(cls, root: str | Path) -> 'RunFolder':
        """
        Return the run in this folder; nothing is written.

        :raises UserError: when there is none, or its manifest is damaged.
        """
        if os.path.lexists(Path(root, MANIFEST)):
            checked_files(root)
        return cls(Path(root), load_manifest(Path(root)))

    @classmethod
    def existing_or_none(cls, root: str | None) -> 'RunFolder | None':
        """
        Return the run in this folder; `None` where there is none yet.
        """
        if not root or not (Path(root) / MANIFEST).is_file():
            return None
        return cls.existing(root)

    @property
    def as_option(self) -> str:
        """
        How a command line names the run.
        """
        return f'--run-dir {quote(str(self.root))}'

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """
        Keep other processes from writing; may be entered again within itself.
        """
        with contextlib.nullcontext() if self._depth else _exclusive(self.root):
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def has_dialogues(self, shard: ShardKey) -> bool:
        """
        True if this shard has been collected.
        """
        return self.dialogues_path(shard).exists()

    def write_dialogues(self, shard: ShardKey, dialogues: Sequence[Dialogue]) -> None:
        """
        Write one shard's dialogues, in the order of its openers.

        :raises ValueError: when these are not the shard's dialogues, or it is
            already there with other content.
        """
        path = self.dialogues_path(shard)
        if (
            not dialogues
            or any(dialogue.pairing_id != shard.pairing_id for dialogue in dialogues)
            or len({dialogue.id for dialogue in dialogues}) < len(dialogues)
            or not self._has_openers(shard, dialogues)
        ):
            raise ValueError(f'these are no dialogues of {shard}')
        records = [dialogue_record(dialogue, path.stem) for dialogue in dialogues]
        data = encode_shard(records, shard.index)
        if path.exists():
            if path.read_bytes() != data:
                raise ValueError(f'{path} is there, with other dialogues')
            return
        self._write_metadata(shard)
        write_file(path, data)
        self.held.pop(path, None)

    def restore_metadata(self) -> None:
        """
        Write the metadata of collected shards anew where it is missing or damaged: it
        follows from the manifest.
        """
        for shard in self.dialogue_shards():
            self._write_metadata(shard)

    def _write_metadata(self, shard: ShardKey) -> None:
        # the settings as they were before the run grew beyond a shard, so that its
        # files do not depend on when it was written
        settings = self.manifest.settings()
        stages = self.manifest.grown_from
        if later := [n for n in stages if n >= shard.stop]:
            earlier = [n for n in stages if n < shard.stop]
            settings = self.manifest.settings(self.openers[: later[0]], earlier)
        pairing = self.pairing(shard.pairing_id)
        # what ParlAI expects beside a file of conversations, with the version of its
        # format; the date is a constant, so that the same dialogues make the same bytes
        # on every day
        about = {
            'date': '1970-01-01 00:00:00',
            'opt': settings,
            'self_chat': pairing.first == pairing.second,
            'speakers': list(dict.fromkeys(pairing.speakers)),
            'version': '0.1',
            'pairing_id': pairing.id,
        }
        path = self.dialogues_path(shard).with_suffix('.metadata')
        data = bytes_without_secrets((dumps(about) + '\n').encode())
        if not path.exists() or path.read_bytes() != data:
            write_file(path, data)

    def dialogue_records(self, shard: ShardKey) -> list[JsonObject]:
        """
        Return the records of one shard's dialogues, as they stand in its file.

        :raises UserError: when they are missing or damaged.
        """
        path = self.dialogues_path(shard)
        return decode_shard(self.read_bytes(path, 'collect it'), shard.index, path)

    def read_dialogues(
        self, shard: ShardKey, recorded: Set[str] = frozenset()
    ) -> list[Dialogue]:
        """
        Return one shard's dialogues.

        :param recorded: their checksum when they were scored; where it fits, or that of
            an earlier reading does, single lines need no check.
        :raises UserError: when they are missing or damaged in any way.
        """
        path = self.dialogues_path(shard)
        if path in self.held:
            return [*self.held[path]]
        data = self.read_bytes(path, 'collect it')
        source = short_hash(data)
        is_intact = source in (*recorded, self._checksums.get(shard))
        records = decode_shard(data, shard.index, path, is_intact=is_intact)
        dialogues = read_records(dialogue_from_record, records, path, 'dialogue')
        if any(dialogue.pairing_id != shard.pairing_id for dialogue in dialogues):
            raise damage_error(path, 'line 1 is of another pairing')
        if not self._has_openers(shard, dialogues):
            raise UserError(
                f'{path}: these are dialogues over other openers than those of '
                f'{self.root / MANIFEST}; restore one of them from a copy'
            )
        self._checksums[shard] = source
        self.held[path] = dialogues
        return [*dialogues]

    def read_bytes(self, path: Path, purpose: str) -> bytes:
        """
        Return a shard's bytes. Where all that was read gets too much, what is held
        is dropped before each further file.

        :param purpose: what running again is for, if the file is missing.
        """
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise UserError(f'{path} is missing; run again to {purpose}') from None
        self.room -= len(data)
        if self.room < 0:
            self.held.clear()
        return data

    @property
    def n_dialogues(self) -> int:
        """
        How many dialogues are collected.
        """
        return sum(shard.n_dialogues for shard in self.dialogue_shards())

    def dialogue_shards(self, pairing_id: str | None = None) -> list[ShardKey]:
        """
        Return the collected shards, of one pairing or all, in the manifest's order.
        """
        found: list[ShardKey] = []
        for pairing in self.pairings:
            if pairing_id not in (None, pairing.id):
                continue
            paths = (self.root / 'dialogues' / pairing.id).glob('*.jsonl')
            names = (re.fullmatch(r'\d{5,}', path.stem) for path in paths)
            indices = sorted(int(match[0]) for match in names if match)
            found += [self.shard(pairing.id, index) for index in indices]
        return found

    def planned_shards(self, pairing_id: str) -> list[ShardKey]:
        """
        Return all shards of a pairing, collected or not.
        """
        size, grown_from = self.manifest.shard_size, self.manifest.grown_from
        stages = stage_shards(pairing_id, len(self.openers), size, grown_from)
        return [shard for stage in stages for shard in stage]

    def iter_dialogues(self, pairing_id: str | None = None) -> Iterator[Dialogue]:
        """
        Yield the collected dialogues, of one pairing or all, in the manifest's order.
        """
        for shard in self.dialogue_shards(pairing_id):
            yield from self.read_dialogues(shard)

    def dialogues_checksum(self, shard: ShardKey) -> str:
        """
        Return 16 hex digits of a shard's bytes.
        """
        path = self.dialogues_path(shard)
        known = self._checksums.get(shard)
        return known or short_hash(self.read_bytes(path, 'collect it'))

    def partial_replies(self, key: str) -> PartialWork:
        """
        Return what systems have replied in dialogues that are not written yet.

        :param key: a hash of all that these replies depend on.
        """
        return PartialWork(self._inside(f'{REPLIES}/{key}.partial'), key)

    def count_partial_replies(self) -> int:
        """
        Return how many replies of dialogues that are not written yet are on the disk.
        """
        return sum(
            len(batch.get('replies', ()))
            for path in (self.root / REPLIES).glob('*.partial')
            for batch in PartialWork(path, path.stem).batches.values()
            if isinstance(batch, dict)
        )

    def remove_partial_replies(self) -> None:
        """
        Remove what was kept of dialogues that are written, or will not be.
        """
        shutil.rmtree(self.root / REPLIES, ignore_errors=True)

    def scores(self, scorer_signature: str) -> 'ScoreStore':
        """
        Return the scores of the scorer with this signature.
        """
        return ScoreStore(self, scorer_signature)

    def score_stores(self) -> list['ScoreStore']:
        """
        Return the scores of every scorer that has scored some of the run. One that
        failed before has left a signature alone.

        :raises UserError: when the signature of one was changed.
        """
        paths = sorted((self.root / 'scores').glob('*/signature.txt'))
        return [
            self.scores(read_signature(path))
            for path in paths
            if any(path.parent.glob('*/*.jsonl'))
        ]

    def write_json(self, name: str, data: Mapping[str, object]) -> None:
        """
        Write a file of the run, such as ``ranking.json``, with a checksum; keys keep
        their order.
        """
        self.write_text(name, sealed_text(as_read(data)))

    def write_text(self, name: str, text: str) -> None:
        """
        Write a file of the run; lone surrogates become ``\\udxxx``.
        """
        write_text(self._inside(name), text)

    def record_stop(self, stop: StopRecord) -> None:
        """
        Write into the manifest how the run came to its number of openers, which is not
        compared when the run goes on.
        """
        self.manifest = self.manifest.changed(stop=stop.model_dump())
        save_manifest(self.root, self.manifest)

    def read_json(self, name: str, remedy: str = 'delete it') -> JsonObject:
        """
        Return the mapping in a file that `write_json` wrote.

        :param remedy: what would mend a damaged file.
        :raises UserError: names the file that is missing, or was changed.
        """
        try:
            data = parse_own_json(self._inside(name).read_bytes())
            if not isinstance(data, dict):
                raise ValueError('it is no mapping')
            return without_checksum(data)
        except FileNotFoundError:
            raise UserError(f'{self.root / name} is missing') from None
        except ValueError as error:
            problem = shortened(str(error), 80)
            raise damaged(self.root / name, problem, remedy) from None

    def read_record(self, name: str, kind: type[T], remedy: str) -> T | None:
        """
        Return what a file that `write_json` wrote holds; `None` where there is none.

        :param kind: what it holds, a record, or what `record_from_json` knows.
        :raises UserError: when the file is damaged.
        """
        if not self._inside(name).exists():
            return None
        data = self.read_json(name, remedy)
        try:
            if issubclass(kind, Record):
                return read_record(kind, data)
            return record_from_json(kind, data)
        except WrongType as error:
            raise damaged(self.root / name, error, remedy) from None

    def remove(self, name: str) -> None:
        """
        Remove a file that `write_json` wrote, if it is there.
        """
        self._inside(name).unlink(missing_ok=True)

    def pairing(self, pairing_id: str) -> Pairing:
        """
        Return one of the run's pairings; its id is a safe file name.

        :raises KeyError: when the run has no such pairing.
        """
        return self.plan.by_id[pairing_id]

    def _inside(self, name: str) -> Path:
        """
        Return the path of ``name``, which must lie in the run folder.
        """
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == '/' or '..' in parts:
            raise ValueError(f'{name!r} is not a name within the run folder')
        return self.root.joinpath(*parts)

    def dialogues_path(self, shard: ShardKey) -> Path:
        """
        Return the path of one shard's dialogues.
        """
        return self.root / 'dialogues' / shard.file

    def shard(self, pairing_id: str, index: int) -> ShardKey:
        """
        Return a shard: its pairing, its index, and the openers that it covers.

        :raises KeyError: when the run has no such pairing.
        """
        name, size = self.pairing(pairing_id).id, self.manifest.shard_size
        full = ShardKey(name, index, index * size, (index + 1) * size)
        path = self.dialogues_path(full)
        if not self.openers:  # of imported dialogues, which may have none
            # as pairs have unequal numbers, the first line says how many there are; of
            # a file that is not readable, take the most
            with contextlib.suppress(OSError, *DATA_ERRORS), path.open('rb') as file:
                n = int(decode(file.readline()[:-1])['shard']['of'])
                return replace(full, stop=full.start + n)
            return full
        planned = self.planned_shards(name)
        if index >= len(planned):
            raise UserError(f'{path} is no file of this run: it has fewer openers')
        return planned[index]

    def _has_openers(self, shard: ShardKey, dialogues: Sequence[Dialogue]) -> bool:
        """
        True if dialogues are over the openers of the manifest.
        """
        ids = [dialogue.opener_id for dialogue in dialogues]
        if not self.openers:
            return self._numbered.issuperset(ids)
        return ids == [one.id for one in self.openers[shard.start : shard.stop]]


class ScoreStore:
    """
    The scores of one scorer: ``RUN/scores/<hash of the scorer's signature>``.
    """

    def __init__(self, run: RunFolder, signature: str):
        self.run = run
        self.signature = signature
        self.root = run.root / 'scores' / content_id(signature)

    def has(self, shard: ShardKey) -> bool:
        """
        True if this shard is scored.
        """
        return self.path(shard).exists()

    def write(self, shard: ShardKey, scored: Sequence[ScoredDialogue]) -> None:
        """
        Write the scores of one shard: one entry for each of its dialogues, in order.
        """
        dialogues = self.run.read_dialogues(shard)
        if [one.dialogue_id for one in scored] != [one.id for one in dialogues]:
            raise ValueError(f'scores of other dialogues than those of {shard}')
        source = self.run.dialogues_checksum(shard)
        records = [scored_record(scored_dialogue, source) for scored_dialogue in scored]
        data = encode_shard(records, shard.index)
        self._write_signature()
        write_file(self.path(shard), data)
        self.run.held.pop(self.path(shard), None)

    def scored_dialogues(
        self,
    ) -> Iterator[tuple[Dialogue, ScoredDialogue | None]]:
        """
        Yield every collected dialogue with its scores (`None`: not scored), in the
        manifest's order. Each file is read once.
        """
        shards = self.run.dialogue_shards()
        with bar_of('read', sum(s.n_dialogues for s in shards), delay=3) as bar:
            for shard in shards:
                scored, recorded = self._read(shard) if self.has(shard) else ([], set())
                dialogues = self.run.read_dialogues(shard, recorded)
                self._check_source(shard, recorded)
                by_id = {one.dialogue_id: one for one in scored}
                for dialogue in dialogues:
                    yield dialogue, by_id.get(dialogue.id)
                    bar.update()

    def read(self, shard: ShardKey) -> list[ScoredDialogue]:
        """
        Return the scores of one shard.

        :raises UserError: when they are damaged, or of dialogues that have changed.
        """
        scored, recorded = self._read(shard)
        self._check_source(shard, recorded)
        return [*scored]

    def by_dialogue(self, shard: ShardKey) -> dict[str, ScoredDialogue]:
        """
        Return the scores of one shard by dialogue; none when it is not scored.
        """
        if not self.has(shard):
            return {}
        return {one.dialogue_id: one for one in self.read(shard)}

    def _read(self, shard: ShardKey) -> tuple[list[ScoredDialogue], set[str]]:
        """
        Return the scores of one shard, and the checksums that its records name of their
        dialogues' file: one, unless it was tampered with.
        """
        path = self.path(shard)
        held = self.run.held
        if path not in held:
            data = self.run.read_bytes(path, 'have it scored')
            records = decode_shard(data, shard.index, path)
            scored = read_records(scored_from_record, records, path, 'score')
            recorded = {str(record['dialogues']) for record in records}
            held[path] = scored, recorded
        scored, recorded = held[path]
        return scored, recorded

    def _check_source(self, shard: ShardKey, recorded: set[str]) -> None:
        if recorded <= {self.run.dialogues_checksum(shard)}:
            return
        self.run.read_dialogues(shard)  # which may be damaged
        raise UserError(
            f'{self.path(shard)}: these are scores of other dialogues than the run has '
            'now; delete this file and run again to have it redone'
        )

    def about(self) -> ScorerRecord:
        """
        Return the record of the scorer that `write_about` wrote.
        """
        about = self.run.read_record(self._name, ScorerRecord, 'delete it')
        return about or ScorerRecord()

    def write_about(self, record: ScorerRecord) -> None:
        """
        Write the record of the scorer.
        """
        self._write_signature()
        self.run.write_json(self._name, record.to_json())

    @property
    def _name(self) -> str:
        return f'scores/{self.root.name}/{SCORER_FILE}'

    def path(self, shard: ShardKey) -> Path:
        """
        Return the path of the scores of one shard.
        """
        return self.root / shard.file

    def partial(self, shard: ShardKey) -> PartialWork:
        """
        Return what models have answered for a shard that is not scored yet.
        """
        source = self.run.dialogues_checksum(shard)
        self._write_signature()
        return PartialWork(self.path(shard).with_suffix('.partial'), source)

    def remove_partial(self) -> None:
        """
        Remove what was kept of shards that are scored.
        """
        for path in self.root.glob('*/*.partial'):
            if path.with_suffix('.jsonl').exists():
                path.unlink()

    def _write_signature(self) -> None:
        """
        Write the signature before the first score.
        """
        path = self.root / 'signature.txt'
        text = (self.signature + '\n').encode('utf-8', 'backslashreplace')
        if not path.exists():
            write_file(path, text)
        elif path.read_bytes() != text:
            raise signature_error(path)


def read_signature(path: Path) -> str:
    """
    Return the signature of a scorer from the ``signature.txt`` of its scores.

    :raises UserError: when it was changed: the folder's name is its hash.
    """
    data = path.read_bytes()
    signature = data.decode('utf-8', 'replace').removesuffix('\n')
    written = (signature + '\n').encode('utf-8', 'backslashreplace')
    if data != written or content_id(signature) != path.parent.name:
        raise signature_error(path)
    return signature


def signature_error(path: Path) -> UserError:
    """
    Return the error about a signature that was changed.
    """
    remedy = 'delete it and score the run again, which writes it anew'
    return damaged(path, f'{path.parent.name} is not its hash', remedy)


def checked_files(root: str | Path) -> list[str]:
    """
    Return the paths of a run's files. Refuse a folder in which a stranger has put links
    to folders, through which files elsewhere would be written, or pipes and devices,
    which may never end.
    """
    folders, files = [str(root)], []
    for folder in folders:  # to which it adds those inside
        entries: list[os.DirEntry[str]] = []
        with contextlib.suppress(OSError):  # it is not there, or not any more
            entries += os.scandir(folder)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            # what was listed as a file may be gone by now, a link is looked at
            elif entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path):
                files.append(entry.path)
            else:
                raise UserError(
                    f'{entry.path} is a link to a folder or to nothing, a pipe or a '
                    'device: a run has files and folders only'
                )
    return files


@contextlib.contextmanager
def _exclusive(root: Path) -> Iterator[None]:
    """
    Hold the folder's lock, and remove the temporary files that killed runs left.
    """
    files = checked_files(root)
    with locked(root / LOCK):
        for path in map(Path, files):
            if path.name.startswith('.') and path.name.endswith(LEFTOVER):
                path.unlink(missing_ok=True)  # whoever was at work may have ended well
        yield
