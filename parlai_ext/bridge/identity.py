"""
What a system is, as one hash: its options, and the content of its files.

Paths do not enter, so that a model keeps its identity when it moves.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.bridge import hub, zoo
from parlai_ext.errors import UserError
from parlai_ext.records import System, content_id
from parlai_ext.rosters import FILE_OPTIONS

# options that say where or how fast a system runs, not what it says
PLACES = {
    *FILE_OPTIONS,
    'datapath',
    'download_path',
    'no_cuda',
    'gpu',
    'batchsize',
    'model_parallel',
}


def identity(system: System, datapath: str | None = None, *, fetch: bool = True) -> str:
    """
    Return a hash of the system's options and of the content of its files.

    :param fetch: download what is not here; without it, what is missing enters by the
        name it has in the zoo, which is enough for a forecast and nothing else.
    :raises UserError: when a file is missing or cannot be downloaded.
    """
    opt = {k: v for k, v in sorted(system.opt.items()) if k not in PLACES}
    contents: dict[str, str] = {}
    for key in FILE_OPTIONS:
        value = system.opt.get(key)
        if value:
            contents |= _contents(system, key, str(value), datapath, fetch)
    repo = hub.repository(system)
    if repo:
        weights = hub.fetched_weights(repo) if fetch else hub.cached_weights(repo)
        contents['hub'] = sha256(weights) if weights else repo
    source = _own_source(str(system.opt.get('model') or ''))
    if source:
        contents['source'] = sha256(source)
    return content_id('system', opt, contents)


def sha256(path: Path) -> str:
    """
    Return the hash of a file's content, read once a process while it stays the same.
    """
    stat = path.stat()
    return _sha256(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _sha256(path: str, mtime: int, size: int) -> str:
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def _contents(
    system: System, key: str, value: str, datapath: str | None, fetch: bool
) -> dict[str, str]:
    """
    Return the hashes of an option's file and, for a model, of its companions.
    """
    path = Path(value)
    if zoo.is_zoo(value):
        path = zoo.fetched(value, datapath) if fetch else zoo.zoo_file(value, datapath)
        if not fetch and not path.is_file():
            return {key: value}
    if not path.is_file():
        raise UserError(f'system {system.name!r}: {key}: there is no file {value}')
    companions = [path]
    if key == 'model_file':
        companions += sorted(path.parent.glob(f'{_escaped(path.name)}.dict*'))
        companions += [p for p in [Path(f'{path}.opt')] if p.is_file()]
    return {key + p.name.removeprefix(path.name): sha256(p) for p in companions}


def _escaped(name: str) -> str:
    return ''.join(f'[{c}]' if c in '*?[' else c for c in name)


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
