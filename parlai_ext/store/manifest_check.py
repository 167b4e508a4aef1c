"""
What a manifest must hold: the kind of each value, and which values fit each other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from parlai_ext.core.nouns import Opener, Pairing
from parlai_ext.core.options import given_options
from parlai_ext.core.protocol import MOST_DIALOGUES, ProtocolOptions
from parlai_ext.core.records import WrongType, record_from_json
from parlai_ext.worlds.pairings import IMPORTED, SCHEMES

_SAFE_ID = re.compile('[A-Za-z0-9_-]{1,120}')


@dataclass(frozen=True)
class _SystemRecord:
    """
    What the dialogues of a target or a partner depend on.
    """

    identity: str
    shard_size: int | None = None
    grown_from: tuple[int, ...] | None = None
    candidates: str | None = None


@dataclass(frozen=True)
class _ProtocolRecord:
    """
    The sections of a protocol; `ProtocolOptions` has its plain values.
    """

    name: str
    scorer: Mapping[str, Any] = field(default_factory=dict)
    ranking: Mapping[str, Any] = field(default_factory=dict)
    reference: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    reference_kind: str | None = None
    roster: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class _ImportRecord:
    """
    How the dialogues of a run were imported, and what was left out.
    """

    format: str
    asked: Mapping[str, Any]
    files: Mapping[str, str]
    dialogues_a_pair: int
    left_out: int
    bad_rows: int
    people_only: int
    silent: Mapping[str, int]


@dataclass(frozen=True)
class _StopRecord:
    """
    How a run that stops when it is settled came to its number of openers.
    """

    rule: str
    dimension: str
    margin: float
    planned: int
    used: int
    reason: str
    scores: str


@dataclass(frozen=True)
class ManifestRecord:
    """
    The kinds of a manifest's values; `None` is absent.
    """

    protocol: _ProtocolRecord
    targets: Mapping[str, _SystemRecord]
    partners: Mapping[str, _SystemRecord]
    systems: Mapping[str, Mapping[str, Any]]
    collect: Mapping[str, Any]
    score: Mapping[str, Any]
    pairings: tuple[Pairing, ...]
    openers: tuple[Opener, ...]
    shard_size: int
    versions: Mapping[str, str]
    signature: str
    batchsize: int | None = None
    grown_from: tuple[int, ...] = ()
    asked: Mapping[str, Any] = field(default_factory=dict)
    trusted: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)
    guessed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    imported: _ImportRecord | None = None
    stop: _StopRecord | None = None


def numbered_id(number: int) -> str:
    """
    Return the id of the placeholder for the opener of the n-th imported dialogue of two
    systems.
    """
    return f'{IMPORTED}-{number:06d}'


def numbered_openers(manifest: Mapping[str, Any]) -> list[Opener]:
    """
    Return placeholders for the openers of an imported run, which has none; an empty
    list for any other run.
    """
    about = manifest.get(IMPORTED) or {}
    n = about.get('dialogues_a_pair', 0)
    return [Opener(numbered_id(i), (), IMPORTED) for i in range(n)]


def check_manifest(data: Mapping[str, Any]) -> None:
    """
    Refuse a manifest that lacks a value, has one of another kind, or two that do not
    fit each other.

    :raises WrongType: naming the key.
    """
    record: ManifestRecord = record_from_json(ManifestRecord, dict(data))
    _check_protocol(data['protocol'], record.imported is not None)
    if record.imported is None:
        _check_collect(record, data['protocol'])
    _check_systems(record)
    _check_pairings(record)
    _refuse_repeated('openers', [opener.id for opener in record.openers])
    _check_counts(record)
    asked = dict(record.asked)
    if record.imported is not None:
        asked = dict(record.imported.asked)
        _expect_texts('imported.asked.dialogues', asked.pop('dialogues', None))
    _expect_texts('asked.add_target', asked.pop('add_target', []))


def _check_protocol(protocol: Mapping[str, Any], imported: bool) -> None:
    """
    Refuse keys that a protocol does not have, and values that it does not allow.
    """
    sections = _ProtocolRecord.__dataclass_fields__
    plain = {key: value for key, value in protocol.items() if key not in sections}
    if imported != (plain.get('pairing') == IMPORTED):
        raise WrongType(f'protocol.pairing: {IMPORTED} goes with the key {IMPORTED!r}')
    if imported:
        del plain['pairing']
    if empty := [key for key, value in plain.items() if value is None]:
        raise WrongType(f'protocol.{empty[0]}: a value expected, not None')
    given_options(
        ProtocolOptions,
        plain,
        error=lambda key, problem: WrongType(f'protocol.{key}: {problem}'),
    )
    scorer = protocol.get('scorer', {}).get('name', '')
    if not isinstance(scorer, str):
        raise WrongType(f'protocol.scorer.name: a text expected, not {scorer!r:.60}')


def _check_collect(record: ManifestRecord, protocol: Mapping[str, Any]) -> None:
    """
    Refuse settings of collecting that are not those of the protocol.
    """
    for key in ('pairing', 'openers', 'num_dialogues', 'num_turns', 'seed'):
        for name, there in (('collect', record.collect), ('protocol', protocol)):
            if key not in there:
                raise WrongType(f'{name}.{key} is missing')
        if record.collect[key] != protocol[key]:
            raise WrongType(
                f'collect.{key}: {record.collect[key]!r:.60}, while the protocol has '
                f'{protocol[key]!r:.60}'
            )
    if not record.openers:
        raise WrongType('openers: a run has one at least')


def _check_systems(record: ManifestRecord) -> None:
    """
    Refuse a system that is both target and partner, and one without options.
    """
    for name in (*record.targets, *record.partners):
        if name not in record.systems:
            raise WrongType(f'systems.{name} is missing')
    if both := [name for name in record.targets if name in record.partners]:
        raise WrongType(f'partners.{both[0]}: it is a target, too')


def _check_pairings(record: ManifestRecord) -> None:
    """
    Refuse a pairing of systems that the run does not have, or by no scheme.
    """
    for i, pairing in enumerate(record.pairings):
        if not _SAFE_ID.fullmatch(pairing.id):
            raise WrongType(f'pairings[{i}].id: {pairing.id!r} cannot be a pairing id')
        if pairing.scheme not in SCHEMES:
            raise WrongType(f'pairings[{i}].scheme: there is no {pairing.scheme!r}')
        for key in ('first', 'second'):
            name = getattr(pairing, key)
            if name not in record.targets and name not in record.partners:
                raise WrongType(f'pairings[{i}].{key}: there is no system {name!r}')
    _refuse_repeated('pairings', [pairing.id for pairing in record.pairings])


def _check_counts(record: ManifestRecord) -> None:
    """
    Refuse sizes that no run has.
    """
    imports = record.imported
    counts = {'shard_size': record.shard_size}
    if imports is None or record.batchsize is not None:
        if record.batchsize is None:
            raise WrongType('batchsize is missing')
        counts['batchsize'] = record.batchsize
    if imports is not None:
        counts['imported.dialogues_a_pair'] = imports.dialogues_a_pair
    for key, count in counts.items():
        if not 1 <= count <= MOST_DIALOGUES:
            raise WrongType(f'{key}: {count} is not from 1 to {MOST_DIALOGUES}')
    stages = (0, *record.grown_from, max(1, len(record.openers)))
    if any(late <= early for early, late in pairwise(stages)):
        raise WrongType('grown_from: these are no numbers of openers that grew')


def _refuse_repeated(key: str, ids: Sequence[str]) -> None:
    seen: set[str] = set()
    for i, id in enumerate(ids):
        if id in seen:
            raise WrongType(f'{key}[{i}].id: {id!r} is there twice')
        seen.add(id)


def _expect_texts(key: str, values: Any) -> None:
    if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise WrongType(f'{key}: a list of texts expected, not {values!r:.60}')
