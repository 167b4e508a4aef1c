"""
A system's identity: one hash of its options and of the content of its files.

Paths are no part of it, so that a model keeps its identity when it moves.
"""

import glob
from pathlib import Path
from typing import Any

from parlai_ext.core import System, SystemFailed, UserError, content_id, errors_about
from parlai_ext.files.option_files import files_at, sha256
from parlai_ext.files.roster_file import FILE_OPTIONS, INDEX_OPTIONS
from parlai_ext.isolation.names import source_file
from parlai_ext.isolation.policy import require_named
from parlai_ext.systems import zoo
from parlai_ext.systems.candidates import candidates_file, is_spec
from parlai_ext.systems.families import CANDIDATES, PLACE_OPTIONS, family_of
from parlai_ext.systems.family import effective_options

# options of any system that say where or how fast it runs, not what it says
PLACES = PLACE_OPTIONS | {
    *FILE_OPTIONS,
    'datapath',
    'download_path',
    'no_cuda',
    'gpu',
    'batchsize',
    'model_parallel',
    'trust_model_code',
}


def identity(system: System) -> str:
    """
    Return a hash of the system's options and of the content of its files, which are
    downloaded when they are not here.

    :raises UserError: when a file is missing or cannot be had.
    """
    require_named(system)
    contents: dict[str, str] = {}
    try:
        for key in FILE_OPTIONS:
            if system.opt.get(key):
                contents |= _contents(key, str(system.opt[key]))
        opt = effective_options(system)
        contents |= family_of(opt).contents(system, opt)
        inner = family_of(opt).inner_system(opt)
        if inner is not None:
            contents['inner'] = identity(inner)
    except SystemFailed:
        raise
    except UserError as e:
        raise SystemFailed(system.name, str(e)) from None
    module, colon, _ = str(system.opt.get('model') or '').partition(':')
    # a user's own agent; ParlAI's and ours have version numbers
    if colon and module.split('.')[0] not in ('parlai', 'parlai_ext', 'projects'):
        source = source_file(module)
        if source is not None:
            contents['source'] = sha256(source)
    return content_id('system', identity_options(system), contents)


def identity_options(system: System) -> dict[str, Any]:
    """
    Return the options that can change a system's replies, without those that only say
    where its files are.
    """
    places = PLACES.union(family_of(system.opt).local_options)
    return {k: v for k, v in sorted(system.opt.items()) if k not in places}


def candidates_hash(system: System) -> str | None:
    """
    Return a short hash of what a retriever may say; `None` without such a file.
    """
    value = system.opt.get(CANDIDATES)
    if value:
        hashes = _contents(CANDIDATES, str(value))
    else:
        opt = effective_options(system)
        hashes = family_of(opt).candidates(opt)
    return content_id('candidates', *hashes.values()) if hashes else None


def _contents(key: str, value: str) -> dict[str, str]:
    """
    Return the hashes of an option's files and, for a model, of the dictionary and the
    options beside it.
    """
    find = candidates_file if is_spec(value) else zoo.fetch_path
    with errors_about(key):
        path = find(value)
    files = files_at(path, is_prefix=key in INDEX_OPTIONS)
    if not files or (path.is_dir() and key not in INDEX_OPTIONS):
        raise UserError(f'{key}: there is no file {value}')
    if key == 'model_file':
        near = sorted(path.parent.glob(f'{glob.escape(path.name)}.dict*'))
        near += [p for p in [Path(f'{path}.opt')] if p.is_file()]
        files |= {p.name.removeprefix(path.name): p for p in near}
    return {key + name: sha256(file) for name, file in files.items()}
