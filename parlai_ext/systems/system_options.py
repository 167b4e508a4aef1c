"""
The options of a system, as far as its roster and the files of this machine tell them.
"""

from pathlib import Path
from typing import Any

from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.nouns import System
from parlai_ext.systems.fetch.data_folder import local_path
from parlai_ext.systems.safe.load import read_opt
from parlai_ext.systems.safe.unpickle import BadModelFile


def model_path(system: System) -> Path | None:
    """
    Return where the system's model file is, or would be after a download.
    """
    path = str(system.opt.get('model_file') or '')
    return local_path(path) if path else None


def roster_options(system: System) -> dict[str, Any]:
    """
    Return the roster's options of a system that have a value.
    """
    return {key: value for key, value in system.opt.items() if value is not None}


def own_options(system: System) -> dict[str, Any]:
    """
    Return what the `.opt` beside the system's model file says; empty without one.

    Reads the disk only. The roster may name an agent that the `.opt` may not.

    :raises UserError: when it holds no options, or more than data.
    """
    path = model_path(system)
    if path is None or not Path(f'{path}.opt').is_file():
        return {}
    try:
        return read_opt(f'{path}.opt', roster_opt=system.opt)
    except BadModelFile as error:
        raise UserError(error.as_option) from error


def effective_options(system: System) -> dict[str, Any]:
    """
    Return the model's own options with the roster's over them.

    :raises SystemFailed: when the model's own options cannot be read.
    """
    try:
        return {**own_options(system), **roster_options(system)}
    except UserError as error:
        raise SystemFailed(system.name, str(error)) from error
