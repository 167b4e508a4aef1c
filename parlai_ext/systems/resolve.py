"""
Check whether a system's files are here, to be downloaded, or missing and why.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from parlai_ext.compat.parlai_setup import prepare_parlai
from parlai_ext.core import System, UserError
from parlai_ext.engines.machine import data_in
from parlai_ext.files.option_files import existing_file
from parlai_ext.files.roster_file import FILE_OPTIONS, shipped_systems
from parlai_ext.isolation.names import Options
from parlai_ext.isolation.policy import require_named
from parlai_ext.systems.downloads import needed_file, needed_tokenizer
from parlai_ext.systems.families import check_reader, family_of
from parlai_ext.systems.family import (
    DOWNLOAD,
    MISSING,
    PRESENT,
    own_options,
    roster_options,
)
from parlai_ext.systems.safe.load import count_parameters
from parlai_ext.systems.safe.unpickle import Refused

BYTES_PER_PARAMETER = 4  # float32


@dataclass(frozen=True)
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
    from parlai_ext.systems.player_process import check_options_apart

    require_named(system)
    prepare_parlai()
    status, where, reason = MISSING, '', None
    besides: list[str] = []
    model: Path | None = None
    try:
        status, where = family_of(system.opt).locate_weights(system)
        if status == PRESENT and system.opt.get('model_file'):
            model = Path(where)
        models_options = own_options(system) if model else {}
        besides = list(_other_files(system, models_options))
        agent = system.opt.get('model') or models_options.get('model')
        if agent:
            check_reader({**models_options, **system.opt, 'model': agent})
            # without files, so that none is looked for in the zoo
            given = roster_options(system) | {'model': agent}
            given = {k: v for k, v in given.items() if k not in FILE_OPTIONS}
            with data_in(None):
                check_options_apart(system, given)  # which sets a data folder
        elif model:
            raise UserError(
                f"model: not given; {model}.opt names none: add 'model' to opt"
            )
        if any('://' in line for line in besides):
            status = DOWNLOAD
        inner = family_of(system.opt).inner_system(system.opt)
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
        except Refused as e:
            status, reason = MISSING, reason or e.as_option
    return Resolution(system.name, status, where, reason, params, tuple(besides))


def _other_files(system: System, models_options: Options) -> Iterator[str]:
    """
    Yield a line for each file beside the weights that is to be fetched or made.

    :raises UserError: for options that name files which are not there.
    """
    for option in FILE_OPTIONS:
        value = str(system.opt.get(option) or '')
        if option == 'model_file' or not value:
            continue
        needed = needed_file(option, value)
        if needed is None:
            existing_file(value, option)
        elif needed.note:
            yield f'{option}: {needed.note}'
    tokenizer = needed_tokenizer({**models_options, **roster_options(system)})
    if tokenizer and tokenizer.note:
        yield f'dict_tokenizer: {tokenizer.note}'


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
