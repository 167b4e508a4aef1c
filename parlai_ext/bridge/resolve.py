"""
Where a system's parts come from: here, to be downloaded, or missing and why.
"""

from __future__ import annotations

import difflib
import json
import os
import pkgutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from parlai_ext.bridge import hub, zoo
from parlai_ext.bridge.identity import identity
from parlai_ext.errors import UserError
from parlai_ext.records import System
from parlai_ext.rosters import FILE_OPTIONS, shipped_systems
from parlai_ext.strict_yaml import nearest

__all__ = ['Resolution', 'identity', 'nearest_file', 'resolve']

PRESENT, DOWNLOAD, MISSING = 'present', 'download', 'missing'
BYTES_PER_PARAMETER = 4  # float32


@dataclass(frozen=True)
class Resolution:
    """
    Whether a system can start: `present`, to `download`, or `missing` with a reason.

    `where` is a path or the URLs; `bytes` what the weights take in float32.
    """

    name: str
    status: str
    where: str
    reason: str | None = None
    params: int | None = None
    bytes: int | None = None


def resolve(system: System, datapath: str | None = None) -> Resolution:
    """
    Say where the system's weights, agent and files are; the network is not touched.
    """
    from parlai_ext import plugin

    plugin.register()
    status, where = MISSING, ''
    try:
        status, where = _weights(system, datapath)
        _check_files(system)
        _check_agent(system, Path(where) if status == PRESENT else None)
        reason = None
    except UserError as e:
        status, reason = MISSING, str(e)
    params = listed_params(system)
    if params is None and status == PRESENT and system.opt.get('model_file'):
        params = count_parameters(where)
    size = None if params is None else params * BYTES_PER_PARAMETER
    return Resolution(system.name, status, where, reason, params, size)


def _weights(system: System, datapath: str | None) -> tuple[str, str]:
    """
    Return the status of the weights and where they are or come from.
    """
    path = system.opt.get('model_file')
    if path is None:
        repo = hub.repository(system)
        if repo is None:
            return PRESENT, 'no model file'
        cached = hub.cached_weights(repo)
        if cached:
            return PRESENT, str(cached)
        return DOWNLOAD, f'https://huggingface.co/{repo}'
    path = str(path)
    if not zoo.is_zoo(path):
        return PRESENT, str(_existing(path, 'model_file').absolute())
    urls = zoo.needed_downloads(path, datapath)
    if urls:
        return DOWNLOAD, ' '.join(urls)
    file = zoo.zoo_file(path, datapath)
    if not file.is_file():
        raise UserError(f'{path}: there is no file {file}; {zoo.like(path)}')
    return PRESENT, str(file.absolute())


def _existing(path: str, what: str) -> Path:
    if Path(path).is_file():
        return Path(path)
    raise UserError(f'{what}: {nearest_file(path)}')


def nearest_file(path: str) -> str:
    """
    Say that there is no such file, and which one may be meant.
    """
    wanted = Path(path)
    if wanted.is_dir():
        inside = wanted / 'model'
        hint = f'; did you mean {str(inside)!r}?' if inside.is_file() else ''
        return f'{path} is a folder, not a file{hint}'
    parent = wanted.parent
    if not parent.is_dir():
        while not parent.is_dir():
            wanted, parent = parent, parent.parent
        return f'there is no file {path}: no folder {wanted}{_like(wanted)}'
    return f'there is no file {path}{_like(wanted)}'


def _like(wanted: Path) -> str:
    try:
        names = os.listdir(wanted.parent)
    except OSError:
        return ''
    close = difflib.get_close_matches(wanted.name, names, n=1)
    return f'; did you mean {str(wanted.with_name(close[0]))!r}?' if close else ''


def _check_files(system: System) -> None:
    """
    Refuse options that name files which are not there.
    """
    for key in FILE_OPTIONS:
        value = system.opt.get(key)
        if key != 'model_file' and value and not zoo.is_zoo(str(value)):
            _existing(str(value), key)


def _check_agent(system: System, model: Path | None) -> None:
    """
    Refuse an agent that cannot be imported, or a model that does not name one.
    """
    from parlai.core.loader import load_agent_module

    agent = system.opt.get('model') or (
        own_options(model).get('model') if model else ''
    )
    if agent is None:
        raise UserError(f"{model}.opt does not name an agent; add 'model' to opt")
    if not agent:
        return
    try:
        load_agent_module(agent)
    except ImportError as e:
        hint = nearest(agent, _like_agents(agent))
        hint = f'; {hint}' if hint.startswith('did') else ''
        raise UserError(f'agent {agent}: {e}{hint}') from None
    except Exception as e:  # a foreign module may raise anything when imported
        raise UserError(f'agent {agent} cannot be imported: {e}') from None


def own_options(model: Path) -> dict[str, Any]:
    """
    Return what the `.opt` beside a model file says; empty when there is none.
    """
    try:
        found = json.loads(Path(f'{model}.opt').read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _like_agents(agent: str) -> list[str]:
    """
    Return agent names of the same form as this one.
    """
    prefix, room = (
        ('ext:', 'parlai_ext') if agent.startswith('ext:') else ('', 'parlai')
    )
    home = import_module(f'{room}.agents')
    names = [m.name for m in pkgutil.iter_modules(home.__path__)]
    package = agent.removeprefix(prefix).partition('/')[0]
    if '/' in agent and package in names:
        inside = import_module(f'{room}.agents.{package}')
        found = pkgutil.iter_modules(inside.__path__)
        names = [f'{package}/{m.name}' for m in found]
    return [prefix + name for name in names]


def listed_params(system: System) -> int | None:
    """
    Return the number of parameters that a shipped roster gives for these weights.
    """

    def weights(opt: Any) -> tuple[Any, ...]:
        return opt.get('model_file'), opt.get('gpt2_size')

    for other, info in shipped_systems().values():
        if any(weights(system.opt)) and weights(other.opt) == weights(system.opt):
            return info.get('params')
    return None


def count_parameters(model_file: str) -> int | None:
    """
    Return how many parameters a model file holds, shared ones once; `None` if it
    cannot be told without running code from the file.
    """
    import torch

    try:
        states = torch.load(model_file, 'cpu', weights_only=True, mmap=True)
        tensors = states['model'].values()
    except Exception:  # old formats, pickled classes: nothing to be done safely
        return None
    seen = {(t.data_ptr(), t.numel()): t.numel() for t in tensors}
    return sum(seen.values())
