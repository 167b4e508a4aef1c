"""
The manifest: what a run is, and what may change when it is continued.

How dialogues arise and how they are scored may not change, nor any system that is
already there; systems to evaluate may be added.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.store.atomic import write_file
from parlai_ext.store.lines import checksum, dumps

logger = logging.getLogger(__name__)

SCHEMA = 1
NAME = 'manifest.json'
_SAFE_ID = re.compile('[A-Za-z0-9_-]{1,120}')
_ABSENT = object()
AS_THEY_ARE = '; score_dialogues judges the dialogues that are there by another scorer'


def plain(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return a manifest as the JSON data that a file of it would give back.
    """
    data: dict[str, Any] = json.loads(dumps(manifest))
    data.pop('checksum', None)
    data.setdefault('schema', SCHEMA)
    for key in ('collect', 'score', 'targets', 'partners', 'systems', 'versions'):
        data.setdefault(key, {})
    for key in ('pairings', 'openers'):
        data.setdefault(key, [])
    for pairing in data['pairings']:
        if not _SAFE_ID.fullmatch(pairing['id']):
            raise UserError(f'{pairing["id"]!r} in {NAME} cannot be a pairing id')
    return data


def save(root: Path, manifest: Mapping[str, Any]) -> None:
    """
    Write the manifest, with its checksum.
    """
    whole = {**manifest, 'checksum': checksum(manifest)}
    write_file(root / NAME, (dumps(whole, indent=1) + '\n').encode())


def load(root: Path) -> dict[str, Any]:
    """
    Read the manifest of an existing run.

    :raises UserError: when there is none, it is damaged, or of a newer version.
    """
    path = root / NAME
    try:
        manifest = json.loads(path.read_bytes())
        version = manifest['schema']
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f'{root} is not a run folder: {path} is missing') from None
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f'{path} is damaged; restore it from a copy, or use another --run-dir'
        ) from None
    if version != SCHEMA:
        raise UserError(_wrong_schema(path, version, manifest))
    if checksum(manifest) != manifest.get('checksum'):
        raise UserError(
            f'{path} is damaged or was edited by hand (its checksum does not fit); '
            'restore it from a copy, or use another --run-dir'
        )
    return plain(manifest)


def _wrong_schema(path: Path, version: Any, manifest: Mapping[str, Any]) -> str:
    """
    Say which version can read this run folder.
    """
    maker = (manifest.get('versions') or {}).get('parlai_ext')
    needed = f'parlai_ext {maker}' if maker else 'the parlai_ext that wrote it'
    return (
        f'{path} has schema {version!r}, this parlai_ext reads schema {SCHEMA}; '
        f'use {needed}'
    )


def merged(
    old: Mapping[str, Any], new: Mapping[str, Any], root: Path
) -> dict[str, Any]:
    """
    Return the manifest of the run ``old`` continued as ``new``: their union.

    :raises UserError: naming every key that may not differ and does.
    """
    if changes := list(differences(old, new)):
        raise UserError(
            f'{root} was made with other settings (old → new): '
            + '; '.join(changes)
            + '. Set these as they were, or use another --run-dir'
            + (AS_THEY_ARE if all(c.startswith('score.') for c in changes) else '')
        )
    if old['versions'] != new['versions']:
        logger.warning(
            '%s was begun with other versions: %s, now %s',
            *(root, old['versions'], new['versions']),
        )
    known = {one['id'] for one in old['pairings']}
    added = [one for one in new['pairings'] if one['id'] not in known]
    return {
        **new,
        'targets': {**old['targets'], **new['targets']},
        'systems': {**old['systems'], **new['systems']},
        'pairings': old['pairings'] + added,
        'versions': old['versions'],
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield ``key: old → new`` for everything that may not differ.
    """
    found = False
    for line in _settings(old, new):
        found = True
        yield line
    if found:
        return
    # a pairing's id changes with what its systems are: said above when it can be
    before, after = _ids_by_pair(old), _ids_by_pair(new)
    for pair in before:
        if pair in after:
            yield from _changes(f'pairings.{pair}', before[pair], after[pair])


def _settings(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield what differs in the settings, and in the systems that both have.
    """
    for key in ('collect', 'score', 'partners', 'shard_size'):
        yield from _changes(key, old.get(key, _ABSENT), new.get(key, _ABSENT))
    before, after = _opener_ids(old), _opener_ids(new)
    if before != after:
        yield f'openers: {_counted(before)} → {_counted(after)}'
    for name, what in old['targets'].items():
        if new['targets'].get(name, what) != what:
            yield from _changes(f'targets.{name}', _all(old, name), _all(new, name))


def _changes(key: str, old: Any, new: Any) -> Iterator[str]:
    """
    Yield the differing leaves below ``key``.
    """
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*old, *new)):
            inner = old.get(name, _ABSENT), new.get(name, _ABSENT)
            yield from _changes(f'{key}.{name}', *inner)
    else:
        shown = key if key.isprintable() else repr(key)
        yield f'{shown}: {_short(old)} → {_short(new)}'


def _short(value: Any) -> str:
    """
    Return a value on one line, cut when it is long.
    """
    if value is _ABSENT:
        return '(absent)'
    text = dumps(value)
    return text if len(text) <= 60 else f'{text[:48]}… #{content_id(value)[:8]}'


def _all(manifest: Mapping[str, Any], name: str) -> dict[str, Any]:
    """
    Return what a target is and, when the manifest says so, how it is built.
    """
    return {**manifest['systems'].get(name, {}), **manifest['targets'][name]}


def _opener_ids(manifest: Mapping[str, Any]) -> list[str]:
    return [one['id'] for one in manifest['openers']]


def _counted(ids: list[str]) -> str:
    return f'{len(ids)} openers #{content_id(ids)[:8]}'


def _ids_by_pair(manifest: Mapping[str, Any]) -> dict[str, str]:
    """
    Return pairing ids by readable pair: an id changes when a system's content does.
    """
    return {
        f'{one["scheme"]}.{one["first"]}--{one["second"]}': one['id']
        for one in manifest['pairings']
    }
