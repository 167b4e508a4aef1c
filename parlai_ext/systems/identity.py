"""
What a system is, as one hash: its options, and the content of its files.

Paths do not enter, so that a model keeps its identity when it moves.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System, content_id
from parlai_ext.files.option_files import escaped, files_at, sha256
from parlai_ext.files.roster_file import FILE_OPTIONS, INDEX_OPTIONS
from parlai_ext.systems import hub, rag, zoo
from parlai_ext.systems.candidates import candidates_file, is_spec
from parlai_ext.systems.remote import names

CANDIDATES = 'fixed_candidates_path'
# options that say where or how fast a system runs, not what it says
PLACES = frozenset(
    (
        *FILE_OPTIONS,
        *hub.PLACES,
        *names.PLACES,
        'datapath',
        'download_path',
        'no_cuda',
        'gpu',
        'batchsize',
        'model_parallel',
        'trust_model_code',
    )
)


def identity(system: System, datapath: str | None = None) -> str:
    """
    Return a hash of the system's options and of the content of its files, which are
    downloaded when they are not here.

    :raises UserError: when a file is missing or cannot be had.
    """
    opt = says(system)
    contents: dict[str, str] = {}
    try:
        for key in FILE_OPTIONS:
            if system.opt.get(key):
                contents |= _contents(key, str(system.opt[key]), datapath)
        contents |= hub.contents(system)
        contents |= _looked_up(system, datapath)
        contents |= _own_candidates(system, datapath)
        if names.is_remote(system.opt):
            contents |= names.identity_contents(system.opt)
    except UserError as e:
        raise UserError(f'system {system.name!r}: {e}') from None
    source = _own_source(str(system.opt.get('model') or ''))
    if source:
        contents['source'] = sha256(source)
    return content_id('system', opt, contents)


def says(system: System) -> dict[str, Any]:
    """
    Return the options that decide what a system says; not those that say where its
    files are.
    """
    # a folder or repository, where its files are hashed
    places = PLACES | ({'model_name'} if hub.repository(system) else set())
    return {k: v for k, v in sorted(system.opt.items()) if k not in places}


def candidates_hash(system: System, datapath: str | None = None) -> str | None:
    """
    Return a short hash of what a retriever may say; `None` without such a file.
    """
    value = system.opt.get(CANDIDATES)
    if value:
        found = _contents(CANDIDATES, str(value), datapath)
    else:
        found = _own_candidates(system, datapath)
    return content_id('candidates', *found.values()) if found else None


def _contents(key: str, value: str, datapath: str | None) -> dict[str, str]:
    """
    Return the hashes of an option's files and, for a model, of its companions.
    """
    find = candidates_file if is_spec(value) else zoo.fetch_path
    try:
        path = find(value, datapath)
    except UserError as e:
        raise UserError(f'{key}: {e}') from None
    found = files_at(path, is_prefix=key in INDEX_OPTIONS)
    if not found or (path.is_dir() and key not in INDEX_OPTIONS):
        raise UserError(f'{key}: there is no file {value}')
    if key == 'model_file':
        found |= _companions(path)
    return {key + name: sha256(file) for name, file in found.items()}


def _looked_up(system: System, datapath: str | None) -> dict[str, str]:
    """
    Return the hashes of what FiD and RAG look up, the model's own options included.
    """
    from parlai_ext.systems.parlai_agents import effective_opt

    found = rag.retrieval_files(effective_opt(system, datapath), datapath)
    for key, file in found.items():
        if not file.is_file():
            raise UserError(f'{key}: there is no file {file}')
    return {f'retrieval/{key}': sha256(file) for key, file in found.items()}


def _own_candidates(system: System, datapath: str | None) -> dict[str, str]:
    """
    Return the hash of the candidates that only the model's own options name.
    """
    from parlai_ext.systems.parlai_agents import effective_opt

    opt = effective_opt(system, datapath)
    value = str(opt.get(CANDIDATES) or '')
    # those of FiD and RAG are of the retriever inside them, which has passages
    if system.opt.get(CANDIDATES) or not value or 'rag_retriever_type' in opt:
        return {}
    # without the file the agent is refused when it is built
    return {CANDIDATES: sha256(Path(value))} if Path(value).is_file() else {}


def _companions(model: Path) -> dict[str, Path]:
    """
    Return the dictionary and the options beside a model file.
    """
    near = sorted(model.parent.glob(f'{escaped(model.name)}.dict*'))
    near += [p for p in [Path(f'{model}.opt')] if p.is_file()]
    return {p.name.removeprefix(model.name): p for p in near}


def _own_source(agent: str) -> Path | None:
    """
    Return the file of a user's own agent; ParlAI's and ours have version numbers.
    """
    module = agent.partition(':')[0]
    if ':' not in agent or module.split('.')[0] in ('parlai', 'parlai_ext', 'projects'):
        return None
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.has_location else None
