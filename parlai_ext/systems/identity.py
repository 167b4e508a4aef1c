"""
What a system is, and whether its files are here, to be downloaded, or missing and why.

Its identity is one hash of its options and of the content of its files. Paths are no
part of it, so that a model keeps its identity when it moves.
"""

import glob
from dataclasses import replace
from pathlib import Path

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import (
    JsonDict,
    JsonObject,
    System,
    UserError,
    content_id,
    errors_about,
    errors_of_system,
    frozen,
    known_values,
)
from parlai_ext.engines import data_in
from parlai_ext.files import (
    FILE_OPTIONS,
    INDEX_OPTIONS,
    files_at,
    sha256,
    shipped_systems,
)
from parlai_ext.isolation.policy import require_named, source_file
from parlai_ext.systems.downloads import fetched_file, needed_by_system
from parlai_ext.systems.families import (
    CANDIDATES,
    PLACE_OPTIONS,
    candidate_hashes,
    check_reader,
    effective_options,
    family_of,
    no_model,
)
from parlai_ext.systems.family import DOWNLOAD, MISSING, PRESENT
from parlai_ext.systems.parlai_agents import check_options_apart
from parlai_ext.systems.safe.load import count_parameters

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
    with errors_of_system(system.name):
        for key in FILE_OPTIONS:
            if system.opt.get(key):
                contents |= _contents(key, str(system.opt[key]))
        opt = effective_options(system)
        contents |= family_of(opt).contents(opt)
        inner = family_of(opt).inner_system(opt)
    if inner is not None:
        contents['inner'] = identity(inner)
    module, colon, _ = str(system.opt.get('model') or '').partition(':')
    # a user's own agent; ParlAI's and ours have version numbers
    if colon and module.split('.')[0] not in ('parlai', 'parlai_ext', 'projects'):
        source = source_file(module)
        if source is not None:
            contents['source'] = sha256(source)
    return content_id('system', identity_options(system), contents)


def identity_options(system: System) -> JsonObject:
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
        hashes = candidate_hashes(effective_options(system))
    return content_id('candidates', *hashes.values()) if hashes else None


def _contents(key: str, value: str) -> dict[str, str]:
    """
    Return the hashes of an option's files and, for a model, of the dictionary and the
    options beside it.
    """
    with errors_about(key):
        path = fetched_file(value)
    files = files_at(path, is_prefix=key in INDEX_OPTIONS)
    if not files or (path.is_dir() and key not in INDEX_OPTIONS):
        raise UserError(f'{key}: there is no file {value}')
    if key == 'model_file':
        near = sorted(path.parent.glob(f'{glob.escape(path.name)}.dict*'))
        near += [p for p in [Path(f'{path}.opt')] if p.is_file()]
        files |= {p.name.removeprefix(path.name): p for p in near}
    return {key + name: sha256(file) for name, file in files.items()}


# --- are its files here, to be downloaded, or missing? --------------------------------

BYTES_PER_PARAMETER = 4  # float32


@frozen
class Resolution:
    """
    Whether a system can start: `present`, to `download`, or `missing` with a reason.

    `where` is a path or the URLs of the weights; `besides` has a line for each other
    file to be downloaded or made; `bytes` is what the weights take in float32. A reason
    names an option first.
    """

    name: str
    status: str
    where: str
    reason: str | None = None
    params: int | None = None
    besides: tuple[str, ...] = ()

    @property
    def bytes(self) -> int | None:
        """
        What the weights take in float32.
        """
        return None if self.params is None else self.params * BYTES_PER_PARAMETER


def resolve(system: System) -> Resolution:
    """
    Return whether a system is present, to be downloaded or missing, after a check of
    its weights, agent, options and files. The network is not touched.

    :raises SystemFailed: for one that only a record names and that would run code.
    """
    require_named(system)
    prepare_parlai()
    family = family_of(system.opt)
    status, where, reason = MISSING, '', None
    besides: list[str] = []
    model: Path | None = None
    try:
        status, where = family.locate_weights(system.opt)
        if status == PRESENT and system.opt.get('model_file'):
            model = Path(where)
        besides = [
            f'{needed.option}: {needed.note}'
            for needed in needed_by_system(system)
            if needed.option != 'model_file' and needed.note
        ]
        check_agent_options(system, model)
        if any('://' in line for line in besides):
            status = DOWNLOAD
        inner = family.inner_system(system.opt)
        if inner is not None:
            found = resolve(inner)
            reason = found.reason and f'its system: {found.reason}'
            return replace(found, name=system.name, reason=reason)
    except UserError as e:
        status, reason = MISSING, str(e).removeprefix(f'system {system.name!r}: ')
    params = listed_params(system)
    if params is None and model is not None:
        try:
            params = count_parameters(model)
        except UserError as e:
            status, reason = MISSING, reason or str(e)
    return Resolution(system.name, status, where, reason, params, tuple(besides))


def check_agent_options(system: System, model: Path | None) -> None:
    """
    Refuse a system without an agent, or with options that its agent does not take.

    :param model: its model file, if it is here.
    :raises UserError: naming the option.
    """
    opt = effective_options(system)
    if opt.get('model'):
        check_reader(opt)
        # without files, so that none is looked for in the zoo
        given: JsonDict = known_values({**system.opt, 'model': opt['model']})
        given = {k: v for k, v in given.items() if k not in FILE_OPTIONS}
        with data_in(None):
            check_options_apart(system, given)  # which sets a data folder
    elif model:
        raise no_model(model)


def listed_params(system: System) -> int | None:
    """
    Return the number of parameters that a shipped roster gives for these weights.
    """
    family = family_of(system.opt)
    weights = [system.opt.get(key) for key in family.weights_options]
    for other, info in shipped_systems().values():
        same = weights == [other.opt.get(key) for key in family.weights_options]
        if any(weights) and same and family_of(other.opt) is family:
            return info.params
    return None
