"""
Rosters: who is evaluated and with whom they talk, from YAML or a command line.

A roster file has `targets:` and `partners:`; each entry is the name of a shipped system
or a mapping with `name` and `opt` (ParlAI options) and, for readers, `params`, `notes`,
`confidence`, `guess` and `alternatives`.

A relative path in a file (`model_file`, candidates, …) is taken from the file's own
folder when it exists there, and else from the working directory. Of a retriever,
``fixed_candidates_path: task:TASK`` asks for the replies of a ParlAI task.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.nouns import Roster, System
from parlai_ext.files.yaml_file import Document, Key, read_file, read_text

INFO: dict[str, type] = {
    'params': int,
    'notes': str,
    'confidence': str,
    'guess': bool,
    'alternatives': list,
}
SYSTEM_KEYS = ('name', 'opt', *INFO)
ROSTER_KEYS = ('description', 'targets', 'partners')
# options that may also be a folder, or how the names of several files begin
INDEX_OPTIONS = ('path_to_index', 'path_to_dense_embeddings')
# options that name a file
FILE_OPTIONS = (
    'model_file',
    'init_model',
    'dict_file',
    'fixed_candidates_path',
    'bpe_vocab',
    'bpe_merge',
    # what RAG and FiD look up
    *INDEX_OPTIONS,
    'path_to_dpr_passages',
    'dpr_model_file',
    'poly_faiss_model_file',
)
# options that name a folder, or a repository of the hub
FOLDER_OPTIONS = ('hf_model', 'model_name')
PREFIXED = re.compile(r'^[A-Za-z_]{2,}:')  # zoo:, models:, task:, internal:


@dataclass(frozen=True)
class RosterFile:
    """
    A roster and what its file tells of each system beside its options.
    """

    roster: Roster
    info: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def load_roster(roster: str | Mapping[str, Any]) -> RosterFile:
    """
    Return a roster by shipped name, by path, or from an inline mapping.

    :raises UserError: for anything in it that cannot be meant.
    """
    if isinstance(roster, str):
        return read_roster(read_shipped('rosters', roster), ())
    return read_roster(Document(dict(roster), 'roster'), ())


def read_shipped(kind: str, name: str) -> Document:
    """
    Read a shipped or own file of this kind (`protocols`, `rosters`, …).
    """
    try:
        return read_file(zoo_configs.path(kind, name))
    except FileNotFoundError as e:
        raise UserError(str(e)) from None


def read_roster(doc: Document, where: tuple[Key, ...]) -> RosterFile:
    """
    Read the roster at the key path ``where`` of a document.
    """
    data: Any = doc.data
    for key in where:
        data = data[key]
    data = doc.mapping(data, where, ROSTER_KEYS, 'a roster')
    info: dict[str, Mapping[str, Any]] = {}
    sides: dict[str, tuple[System, ...]] = {}
    for side in ('targets', 'partners'):
        here = (*where, side)
        entries = doc.typed(data.get(side) or [], here, list)
        found = []
        for i, entry in enumerate(entries):
            system, more = read_system(doc, entry, (*here, i))
            if system.name in info:
                raise doc.error((*here, i), f'{system.name!r} is in the roster already')
            info[system.name] = more
            found.append(system)
        sides[side] = tuple(found)
    return RosterFile(Roster(sides['targets'], sides['partners']), info)


def read_system(
    doc: Document, entry: Any, where: tuple[Key, ...]
) -> tuple[System, dict[str, Any]]:
    """
    Read one system: a mapping, or the name of a shipped one.
    """
    if isinstance(entry, str):
        found = find_system(entry)
        if found is None:
            known = nearest(entry, shipped_systems())
            raise doc.error(where, f'no shipped system {entry!r}; {known}')
        return found
    if isinstance(entry, dict) and not {'model', 'model_file'}.isdisjoint(entry):
        key = 'model_file' if 'model_file' in entry else 'model'
        raise doc.error((*where, key), f'belongs under opt: (opt: {{{key}: …}})')
    entry = doc.mapping(entry, where, SYSTEM_KEYS, 'a system')
    if 'name' not in entry:
        raise doc.error(where, "a system needs the key 'name'")
    name = checked_name(doc, entry['name'], (*where, 'name'))
    opt = doc.typed(entry.get('opt'), (*where, 'opt'), dict)
    if not opt.get('model_file') and not opt.get('model'):
        raise doc.error((*where, 'opt'), "needs 'model_file' or 'model' (an agent)")
    info = {
        key: doc.typed(entry[key], (*where, key), kind)
        for key, kind in INFO.items()
        if entry.get(key) is not None
    }
    return System(name, _opt(doc, opt, (*where, 'opt'))), info


def checked_name(doc: Document, name: Any, where: tuple[Key, ...]) -> str:
    """
    Return a system's name when it can stand in a table, a CSV cell and a page.
    """
    text: str = doc.typed(name, where, str)
    if not text or text != text.strip() or not text.isprintable():
        raise doc.error(where, f'a name is one line of text, not {text!r}')
    return text


def _opt(
    doc: Document, opt: Mapping[str, Any], where: tuple[Key, ...]
) -> dict[str, Any]:
    """
    Return ParlAI options with underscores and with paths resolved.
    """
    found: dict[str, Any] = {}
    for key, value in opt.items():
        name = key.replace('-', '_')
        if isinstance(value, float):
            doc.typed(value, (*where, key), float)
        if name in (*FILE_OPTIONS, *FOLDER_OPTIONS) and value is not None:
            value = beside(doc, doc.typed(value, (*where, key), str))
        found[name] = value
    return found


def beside(doc: Document, value: str) -> str:
    """
    Return a path as it is, or from the document's folder when it exists there.
    """
    value = os.path.expanduser(value)
    if PREFIXED.match(value) or Path(value).is_absolute():
        return value
    near = Path(doc.source).parent / value
    there = near.exists() or near.with_name(f'{near.name}.index').exists()
    return str(near.absolute()) if there else value


def shipped_systems() -> dict[str, tuple[System, dict[str, Any]]]:
    """
    Return every system of `zoo_configs/systems` and of the shipped rosters by name.
    """
    return dict(_shipped(zoo_configs.HOME))


def find_system(name: str) -> tuple[System, dict[str, Any]] | None:
    """
    Return the shipped system called ``name`` and its info, or `None`.

    :raises UserError: when two shipped files mean different systems by it.
    """
    found = [pair for other, pair in _shipped(zoo_configs.HOME) if other == name]
    if any(pair[0].opt != found[0][0].opt for pair in found):
        raise UserError(f'the system name {name!r} is shipped with different options')
    return found[0] if found else None


@cache
def _shipped(home: Path) -> tuple[tuple[str, tuple[System, dict[str, Any]]], ...]:
    """
    Read the shipped files once a process.
    """
    found = []
    for path in sorted((home / 'systems').glob('*.yaml')):
        doc = read_file(path)
        found.append(read_system(doc, doc.data, ()))
    for path in sorted((home / 'rosters').glob('*.yaml')):
        doc = read_file(path)
        for side in ('targets', 'partners'):
            for i, entry in enumerate((doc.data or {}).get(side) or []):
                if isinstance(entry, dict):
                    found.append(read_system(doc, entry, (side, i)))
    return tuple((system.name, (system, info)) for system, info in found)


def parse_target(spec: str) -> System:
    """
    Return the system that ``--add-target`` describes.
    """
    return parse_target_and_info(spec)[0]


def parse_target_and_info(spec: str) -> tuple[System, dict[str, Any]]:
    """
    Return the system that ``--add-target`` describes, and what its file tells of it.

    ``NAME=MODEL_FILE[,key=value…]``, ``NAME=agent:MODULE[,key=value…]`` (an agent
    without a model file), a YAML or JSON file with `name` and `opt`, the name of a
    shipped system, or a model file alone (it is called after its folder).

    :raises UserError: says which part is wrong.
    """
    if spec.endswith(('.yaml', '.yml', '.json')) and '=' not in spec:
        doc = read_file(spec)
        return read_system(doc, doc.data, ())
    head, *options = spec.split(',')
    name, sign, model = head.partition('=')
    if not sign:
        name, model = '', head
    if not options and not sign and not Path(model).exists():
        shipped = find_system(model)
        if shipped:
            return shipped
    doc = Document(None, f'--add-target {spec}')
    model = os.path.expanduser(model)
    agent = model.removeprefix('agent:')
    if not agent or (sign and not name):
        raise doc.error((), 'NAME=MODEL_FILE[,key=value…] is expected')
    opt: dict[str, Any] = {'model_file' if agent == model else 'model': agent}
    for option in options:
        opt.update(_option(doc, option))
    return System(checked_name(doc, name or _called(agent), ()), opt), {}


def _option(doc: Document, option: str) -> dict[str, Any]:
    """
    Return one ``key=value`` of a command line, its value read as YAML reads it.
    """
    key, sign, value = option.partition('=')
    if not sign or not key.strip():
        raise doc.error(
            (),
            f'key=value is expected, not {option!r} (values with commas: use a file)',
        )
    data = read_text(value, doc.source).data if value else ''
    if isinstance(data, float):
        doc.typed(data, (key,), float)
    return {key.strip().replace('-', '_'): data}


def _called(model: str) -> str:
    """
    Return a name for a model file: its own, or its folder's when it is ``model``.
    """
    parts = [p for p in re.split(r'[/\\:]', model) if p]
    own = parts[-1]
    return parts[-2] if own == 'model' and len(parts) > 1 else own
