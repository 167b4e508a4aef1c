"""
The manifest of a run, and the rule for what may change when a run is continued.

Settings of collecting and scoring may not change, nor may any system that the run has
already; targets may be added, and dialogues over more openers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json
from parlai_ext.core.nouns import content_id
from parlai_ext.core.records import WrongType
from parlai_ext.core.secrets import without_secrets
from parlai_ext.store.atomic import write_file
from parlai_ext.store.lines import checksum, dumps
from parlai_ext.store.manifest_check import check_manifest

logger = logging.getLogger(__name__)

SCHEMA = 1
NAME = 'manifest.json'
ABSENT = object()
SCORING_HINT = '; score_dialogues judges the dialogues that are there by another scorer'


def manifest_data(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return a manifest as JSON data, with every key and without secrets, as it would be
    read from its file.
    """
    data: dict[str, Any] = parse_own_json(without_secrets(dumps(manifest)))
    data.pop('checksum', None)
    data.setdefault('schema', SCHEMA)
    for key in ('collect', 'score', 'targets', 'partners', 'systems', 'versions'):
        data.setdefault(key, {})
    for key in ('pairings', 'openers'):
        data.setdefault(key, [])
    return data


def save(root: Path, manifest: Mapping[str, Any]) -> None:
    """
    Write the manifest, with its checksum.
    """
    data = {**manifest, 'checksum': checksum(manifest)}
    write_file(root / NAME, (dumps(data, indent=1) + '\n').encode())


def load(root: Path) -> dict[str, Any]:
    """
    Return the manifest of an existing run.

    :raises UserError: if there is none, or it is damaged or of a newer version.
    """
    path = root / NAME
    try:
        manifest = parse_own_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f'{root} is not a run folder: {path} is missing') from None
    except ValueError:
        raise _damaged(path) from None
    if not isinstance(manifest, dict) or 'schema' not in manifest:
        raise _damaged(path)
    version = manifest['schema']
    if version != SCHEMA:
        raise UserError(_schema_error(path, version, manifest))
    if checksum(manifest) != manifest.get('checksum'):
        raise _damaged(path, ' or was edited by hand (its checksum does not fit)')
    data = manifest_data(manifest)
    try:
        check_manifest(data)
    except WrongType as error:
        raise _damaged(path, f': {error}') from None
    return data


def _damaged(path: Path, problem: str = '') -> UserError:
    """
    Return the error about a manifest that cannot be read.
    """
    return UserError(
        f'{path} is damaged{problem}; restore it from a copy, or use another --run-dir'
    )


def _schema_error(path: Path, version: Any, manifest: Mapping[str, Any]) -> str:
    """
    Return the message that names the version that can read this run folder.
    """
    versions = manifest.get('versions')
    maker = versions.get('parlai_ext') if isinstance(versions, dict) else None
    needed = f'parlai_ext {maker}' if maker else 'the parlai_ext that wrote it'
    return (
        f'{path} has schema {version!r}, this parlai_ext reads schema {SCHEMA}; '
        f'use {needed}'
    )


def merge_manifests(
    old: Mapping[str, Any], new: Mapping[str, Any], root: Path
) -> dict[str, Any]:
    """
    Return the union of a run's manifest and the one that it is continued with.

    :raises UserError: names every key that differs and may not.
    """
    if changes := list(manifest_differences(grown_manifest(old, new), new)):
        raise UserError(
            f'{root} was made with other settings (old → new): '
            + '; '.join(changes)
            + '. Set these as they were, or use another --run-dir'
            + (SCORING_HINT if all(c.startswith('score.') for c in changes) else '')
        )
    if old['versions'] != new['versions']:
        logger.warning(
            '%s was begun with other versions: %s, now %s',
            root,
            old['versions'],
            new['versions'],
        )
    old_ids = {pairing['id'] for pairing in old['pairings']}
    added = [pairing for pairing in new['pairings'] if pairing['id'] not in old_ids]
    return {
        **new,
        'targets': {**old['targets'], **new['targets']},
        'systems': {**old['systems'], **new['systems']},
        'pairings': old['pairings'] + added,
        'versions': old['versions'],
    }


def grown_manifest(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return a run's manifest as it is after the run has grown to the openers of ``new``;
    as it was, where ``new`` does not begin with the openers that the run has.
    """
    n_before, openers = len(old['openers']), new['openers']
    if len(openers) <= n_before or openers[:n_before] != old['openers']:
        return old
    if new.get('grown_from') != [*old.get('grown_from', ()), n_before]:
        return old
    keys = ('num_dialogues', 'openers.content', 'grown_from')
    targets = {
        name: _with_keys(target, new['targets'].get(name, {}), ['grown_from'])
        for name, target in old['targets'].items()
    }
    collect = _with_keys(old['collect'], new['collect'], keys)
    return {**old, 'openers': openers, 'collect': collect, 'targets': targets}


def _with_keys(
    old: Mapping[str, Any], new: Mapping[str, Any], keys: Sequence[str]
) -> dict[str, Any]:
    return {**old, **{key: new[key] for key in keys if key in new}}


def manifest_differences(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[str]:
    """
    Yield ``key: old → new`` for everything that may not differ.
    """
    if lines := list(_setting_differences(old, new)):
        yield from lines
        return
    # a pairing's id changes with its systems, which the lines above name if they can
    before, after = _ids_by_pair(old), _ids_by_pair(new)
    for pair in before:
        if pair in after:
            yield from leaf_differences(f'pairings.{pair}', before[pair], after[pair])


def _setting_differences(
    old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[str]:
    """
    Yield the differences of settings, and of the systems that both runs have.
    """
    for key in ('collect', 'score', 'partners', 'shard_size'):
        yield from leaf_differences(key, old.get(key, ABSENT), new.get(key, ABSENT))
    before, after = _opener_ids(old), _opener_ids(new)
    if before != after:
        yield f'openers: {_openers_text(before)} → {_openers_text(after)}'
    for name, old_target in old['targets'].items():
        if new['targets'].get(name, old_target) != old_target:
            yield from leaf_differences(
                f'targets.{name}', _system(old, name), _system(new, name)
            )


def leaf_differences(key: str, old: Any, new: Any) -> Iterator[str]:
    """
    Yield ``key: old → new`` for each value below ``key`` that differs.
    """
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*old, *new)):
            inner = old.get(name, ABSENT), new.get(name, ABSENT)
            yield from leaf_differences(f'{key}.{name}', *inner)
    else:
        shown = key if key.isprintable() else repr(key)
        yield f'{shown}: {_short(old)} → {_short(new)}'


def _short(value: Any) -> str:
    """
    Return a value on one line; a long one is cut.
    """
    if value is ABSENT:
        return '(absent)'
    text = dumps(value)
    return text if len(text) <= 60 else f'{text[:48]}… #{content_id(value)[:8]}'


def _system(manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """
    Return the identity of a target and, if the manifest has them, its options.
    """
    return {**manifest['systems'].get(name, {}), **manifest['targets'][name]}


def _opener_ids(manifest: Mapping[str, Any]) -> list[str]:
    return [opener['id'] for opener in manifest['openers']]


def _openers_text(ids: list[str]) -> str:
    return f'{len(ids)} openers #{content_id(ids)[:8]}'


def _ids_by_pair(manifest: Mapping[str, Any]) -> dict[str, str]:
    """
    Return pairing ids by the names of scheme and systems; an id also depends on the
    systems' content.
    """
    return {
        f'{pairing["scheme"]}.{pairing["first"]}--{pairing["second"]}': pairing['id']
        for pairing in manifest['pairings']
    }
