"""
A model file is data: while `guarded`, nothing that ParlAI reads of a model runs code.

What ParlAI reads goes through few functions: `torch.load`, ParlAI's own unpickler,
`Opt.load`, now and then `pickle.load` or `numpy.load`; and a model's `.opt` names the
class that is built. Each is replaced, for the whole process, while any guard is active.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import parlai.core.agents
import parlai.core.loader
import parlai.core.opt
import parlai.core.params
import parlai.utils.pickle
import torch

from parlai_ext.core.errors import UserError
from parlai_ext.systems.safe import own_options, safetensors_file
from parlai_ext.systems.safe import read as safe_read
from parlai_ext.systems.safe.read import THEIRS
from parlai_ext.systems.safe.unpickle import (
    BadModelFile,
    Refused,
    SafeUnpickler,
    path_of,
)

__all__ = [
    'BadModelFile',
    'Refused',
    'count_parameters',
    'guarded',
    'read_opt',
    'read_states',
]


@dataclass
class _Guard:
    """
    What one `with` block trusts, whose files it reads, what it has refused so far.
    """

    trusted: frozenset[str]
    given: Mapping[str, Any]
    refused: list[Refused] = field(default_factory=list)


_current: ContextVar[_Guard] = ContextVar('parlai_ext_guard')
_lock = threading.Lock()
_active = 0
_undo = contextlib.ExitStack()


@contextlib.contextmanager
def guarded(
    trusted: Collection[str] | None = None, given: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """
    Let model files, their options and their caches be read as data only.

    The innermost guard of a thread that says what is trusted decides; a thread without
    any trusts nothing while another has one.

    :param trusted: files that may run code: they are read as ParlAI does; by default
        those of the guard around this one.
    :param given: the roster's entry of the system that is read; it may name an agent
        that the model's own `.opt` may not.
    :raises Refused: naming file and global; also where ParlAI would have hidden it.
    """
    guard = _Guard(_resolved(trusted), _given() if given is None else given)
    _enter()
    token = _current.set(guard)
    try:
        yield
    except Exception as error:
        if guard.refused and guard.refused[0].why not in str(error):
            raise guard.refused[0] from error
        raise
    else:
        if guard.refused:
            raise guard.refused[0]
    finally:
        _current.reset(token)
        _leave()


def _enter() -> None:
    global _active
    with _lock:
        if not _active:
            for owner, name, ours in _replacements():
                before = vars(owner)[name]
                setattr(owner, name, ours)
                _undo.callback(setattr, owner, name, before)
        _active += 1


def _leave() -> None:
    global _active
    with _lock:
        _active -= 1
        if not _active:
            _undo.close()


def _replacements() -> list[tuple[Any, str, Any]]:
    """
    Return (owner, name, ours) for each way in which ParlAI reads a model.
    """
    import numpy

    checked = _only_agents(parlai.core.loader.load_agent_module)
    loading = (parlai.core.loader, parlai.core.agents, parlai.core.params)
    return [
        (torch, 'load', _torch_load),
        (torch.jit, 'load', _jit_load),
        (pickle, 'load', _pickle_load),
        (numpy, 'load', _numpy_load),
        (parlai.utils.pickle, 'load', _pickle_load_for_parlai),
        (parlai.utils.pickle, 'Unpickler', SafeUnpickler),
        (parlai.core.opt.Opt, 'load', classmethod(_opt_load)),
        *((module, 'load_agent_module', checked) for module in loading),
    ]


def _resolved(trusted: Collection[str] | None) -> frozenset[str]:
    """
    Return the real paths of what is trusted, or of what is trusted already.
    """
    if trusted is None:
        guard = _current.get(None)
        return guard.trusted if guard else frozenset()
    return frozenset(map(os.path.realpath, trusted))


def _given() -> Mapping[str, Any]:
    guard = _current.get(None)
    return guard.given if guard else {}


def _trusts(path: str) -> bool:
    return os.path.realpath(path) in _resolved(None)


@contextlib.contextmanager
def _noted() -> Iterator[None]:
    """
    Keep a refusal, so that nobody on the way up can hide it.
    """
    try:
        yield
    except Refused as refused:
        guard = _current.get(None)
        if guard is not None:
            guard.refused.append(refused)
        raise


def _torch_load(
    f: Any, map_location: Any = None, pickle_module: Any = None, **options: Any
) -> Any:
    if _trusts(path_of(f)) and not safetensors_file.is_safetensors(f):
        if options.get('weights_only') is None:  # whose default is to run nothing
            pickle_module = pickle_module or parlai.utils.pickle
        theirs = pickle_module is parlai.utils.pickle
        module = THEIRS.pickle_module if theirs else pickle_module
        return THEIRS.torch_load(f, map_location, module, **options)
    with _noted():
        try:
            return safe_read.tensors(f, map_location, **options)
        except Refused as refused:
            if not options.get('weights_only'):
                raise
            # torch itself would refuse a trusted one
            raise refused.for_good() from None


def _jit_load(f: Any, *args: Any, **options: Any) -> Any:
    if _trusts(path_of(f)):
        return THEIRS.jit_load(f, *args, **options)
    with _noted():
        raise Refused(path_of(f), 'a TorchScript program')


def _pickle_load(file: Any, **options: Any) -> Any:
    if not safe_read.called_by_parlai(depth=2):
        return THEIRS.pickle_load(file, **options)
    return _pickle_load_for_parlai(file, **options)


def _pickle_load_for_parlai(file: Any, **options: Any) -> Any:
    if _trusts(path_of(file)):
        return THEIRS.pickle_module.load(file, **options)
    with _noted():
        return safe_read.pickled(file, **options)


def _numpy_load(
    file: Any, mmap_mode: Any = None, allow_pickle: bool = False, **options: Any
) -> Any:
    if not allow_pickle or _trusts(path_of(file)):
        return THEIRS.numpy_load(file, mmap_mode, allow_pickle, **options)
    with _noted():
        return safe_read.arrays(file)


def _opt_load(cls: Any, optfile: str) -> Any:
    with _noted():
        found = _opt(optfile, _trusts(optfile))
        if not _trusts(optfile):
            found = own_options.for_talking(optfile, found, _given())
        return cls(found)


def _only_agents(original: Callable[[str], Any]) -> Callable[[str], Any]:
    """
    Let a model's options name agents only.

    ParlAI calls whatever class `model` names with the options, and
    ``subprocess:Popen`` would run them.
    """

    def load_agent_module(agent_path: str) -> Any:
        found = original(agent_path)
        agent = parlai.core.agents.Agent
        if not (isinstance(found, type) and issubclass(found, agent)):
            raise UserError(f'model: {agent_path} is no ParlAI agent')
        return found

    return load_agent_module


def read_opt(
    path: str | Path,
    trusted: Collection[str] | None = None,
    given: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Return a model's options, from JSON or from an old pickled file.

    :param given: the roster's entry; by default that of the guard around.
    :raises UserError: when it is neither, or more than data.
    """
    return _opt(str(path), os.path.realpath(path) in _resolved(trusted), given)


def _opt(
    path: str, trusts: bool, given: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    found = safe_read.options(path, trusts)
    if not trusts:
        own_options.check(path, found, _given() if given is None else given)
    own = parlai.core.opt.__AUTOCLEAN_KEYS__
    return {key: value for key, value in found.items() if key not in own}


def read_states(
    path: str | Path, trusted: Collection[str] | None = None
) -> dict[str, Any]:
    """
    Return what a model file holds, on the CPU: ``{'model': weights, …}``.

    :raises UserError: when it cannot be read, or is more than data.
    """
    with guarded(trusted):
        found = torch.load(str(path), 'cpu', parlai.utils.pickle)
    if not isinstance(found, dict) or not isinstance(found.get('model'), dict):
        raise BadModelFile(str(path), 'it holds no weights of a ParlAI model')
    return found


def count_parameters(path: str | Path, refusing: bool = False) -> int | None:
    """
    Return how many parameters a model file holds, shared ones once; `None` if that
    cannot be told without running code from it.

    :param refusing: raise `Refused` for such a file, unless it is trusted.
    """
    without_data = getattr(torch.serialization, 'skip_data', contextlib.nullcontext)
    try:
        with without_data():
            tensors = read_states(path, trusted=())['model'].values()
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if refusing and isinstance(error, Refused) and not _trusts(str(path)):
            raise
        return None
    found = [t for t in tensors if isinstance(t, torch.Tensor)]
    return sum({(t.data_ptr(), t.numel()): t.numel() for t in found}.values())
