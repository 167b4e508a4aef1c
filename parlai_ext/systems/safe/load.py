"""
The guard: what ParlAI reads of a model inside of one runs no code.

ParlAI reads a model through few functions: `torch.load`, its own unpickler, `Opt.load`,
now and then `pickle.load` or `numpy.load`; and a model's `.opt` names the class that is
built. Ours take their places when the first guard is entered; outside of a guard they
do what the originals do. In a process of its own, where alone files of others are read,
there is no outside.
"""

import contextlib
import filecmp
import functools
import pickle
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy
import parlai.core.agents
import parlai.core.loader
import parlai.core.opt
import parlai.core.params
import parlai.core.tod.tod_agents
import parlai.utils.pickle
import torch

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.isolation.confinement import is_confined
from parlai_ext.isolation.names import Options
from parlai_ext.isolation.own_records import is_trusted_file
from parlai_ext.systems.safe import read, safetensors_file
from parlai_ext.systems.safe.model_options import (
    check_files_beside,
    check_stored_options,
    options_for_talking,
)
from parlai_ext.systems.safe.reader import read_in_child
from parlai_ext.systems.safe.unpickle import (
    BadModelFile,
    Refused,
    path_of,
)

opt_load: Any = vars(parlai.core.opt.Opt)['load'].__func__  # the original
LOADING = parlai.core.loader, parlai.core.agents, parlai.core.params
# models that came with this package, and were copied to the data folder
SHIPPED = Path(__file__).resolve().parents[2] / 'mini' / 'zoo'


@dataclass(frozen=True)
class _Guard:
    """
    One `guarded` block.

    :param roster_opt: the roster's entry of the system that is read.
    :param refusals: what the block has refused so far.
    """

    roster_opt: Options = field(default_factory=dict)
    refusals: list[Refused] = field(default_factory=list)


_no_guard = _Guard()
_current_guard: ContextVar[_Guard] = ContextVar('parlai_ext_guard', default=_no_guard)


@contextlib.contextmanager
def guarded(roster_opt: Options | None = None) -> Iterator[None]:
    """
    Read model files, their options and their caches as data only, but those that the
    user trusts.

    :param roster_opt: the roster's entry of the system that is read, by default that of
        the guard around this one; it may name an agent that the model's own `.opt` may
        not.
    :raises Refused: naming file and global; also where ParlAI would have hidden it.
    """
    outer = _current_guard.get()
    guard = _Guard(outer.roster_opt if roster_opt is None else roster_opt)
    _replace_readers()
    token = _current_guard.set(guard)
    try:
        yield
    except Exception as error:
        if guard.refusals and guard.refusals[0].why not in str(error):
            raise guard.refusals[0] from error
        raise
    else:
        if guard.refusals:
            raise guard.refusals[0]
    finally:
        _current_guard.reset(token)


@functools.cache
def _replace_readers() -> None:
    """
    Put our readers in the places of those by which ParlAI reads a model.
    """
    pickled = parlai.utils.pickle.load
    agents_only = _agents_only(parlai.core.loader.load_agent_module)
    for owner, name, ours in (
        (torch, 'load', _checked(torch.load, _load_trusted_tensors, _load_tensors)),
        (torch.jit, 'load', _checked(torch.jit.load, None, read.refuse_program)),
        (numpy, 'load', _checked(numpy.load, None, _load_arrays)),
        (parlai.utils.pickle, 'load', _checked(pickled, None, read.read_pickle)),
        (parlai.core.tod.tod_agents, 'pickle', parlai.utils.pickle),
        (parlai.core.opt.Opt, 'load', classmethod(_load_opt)),
        *((module, 'load_agent_module', agents_only) for module in LOADING),
    ):
        setattr(owner, name, ours)


def _is_free() -> bool:
    """
    True where files are read as ever: outside of guards, in the user's own process.
    """
    return _current_guard.get() is _no_guard and not is_confined()


def _checked(
    original: Callable[..., Any],
    load_trusted: Callable[..., Any] | None,
    load_other: Callable[..., Any],
) -> Callable[..., Any]:
    """
    Return a reader that gives a file which the guard trusts to one function, by default
    the original one, and any other to another; what that refuses is kept, so that no
    caller on the way up can hide it.
    """

    def load(f: Any, *args: Any, **options: Any) -> Any:
        if _is_free():
            return original(f, *args, **options)
        if is_trusted_file(path_of(f)):
            return (load_trusted or original)(f, *args, **options)
        with _refusals_recorded():
            return load_other(f, *args, **options)

    return load


@contextlib.contextmanager
def _refusals_recorded() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        guard = _current_guard.get()
        if guard is not _no_guard:
            guard.refusals.append(refused)
        raise


def is_shipped(path: str | Path) -> bool:
    """
    True if a file is byte for byte a model of this package.
    """
    ours = SHIPPED.joinpath(*Path(path).parts[-2:])
    return ours.is_file() and filecmp.cmp(path, ours, shallow=False)


def _load_trusted_tensors(
    f: Any, map_location: Any = None, pickle_module: Any = None, **options: Any
) -> Any:
    """
    Stand in for `torch.load`, which reads no safetensors and runs nothing by default.
    """
    if safetensors_file.is_safetensors(f):
        return read.read_tensors(f, map_location)
    if options.get('weights_only') is None:
        pickle_module = pickle_module or parlai.utils.pickle
    return read.torch_load(f, map_location, pickle_module, **options)


def _load_tensors(
    f: Any, map_location: Any = None, pickle_module: Any = None, **options: Any
) -> Any:
    """
    Stand in for `torch.load`: nothing of the file is run.
    """
    try:
        return read.read_tensors(f, map_location or 'cpu')
    except Refused as refused:
        if not options.get('weights_only'):
            raise
        # trusting the file would not help: torch, too, refuses it
        path, what, *_ = refused.given
        raise Refused(path, what, 'weights as safetensors would do', False) from None


def _load_arrays(
    file: Any, mmap_mode: Any = None, allow_pickle: bool = False, **options: Any
) -> Any:
    if not allow_pickle:
        return read.numpy_load(file, mmap_mode, **options)
    with safetensors_file.opened(file) as opened:
        arrays = read.read_arrays(opened)
    return read.Arrays(arrays) if isinstance(arrays, dict) else arrays


def _load_opt(cls: Any, optfile: str) -> Any:
    if _is_free():
        return opt_load(cls, optfile)
    guard = _current_guard.get()
    with _refusals_recorded():
        opt = read_opt(optfile)
        if not is_trusted_file(optfile):
            opt = options_for_talking(optfile, opt, guard.roster_opt)
    return cls(opt)


def _agents_only(original: Callable[[str], Any]) -> Callable[[str], Any]:
    """
    Let a model's options name agents only.

    ParlAI calls whatever class `model` names with the options, and
    ``subprocess:Popen`` would run them.
    """

    def load_agent_module(agent_path: str) -> Any:
        kind = original(agent_path)
        is_agent = isinstance(kind, type) and issubclass(kind, parlai.core.agents.Agent)
        if not (is_agent or _is_free()):
            raise UserError(f'model: {agent_path} is no ParlAI agent')
        return kind

    return load_agent_module


def check_model_files(path: str | Path) -> None:
    """
    Refuse links to files elsewhere, pipes and devices beside a model that the user does
    not trust.

    :raises Refused: naming the file.
    """
    if not is_trusted_file(path):
        check_files_beside(str(path), _current_guard.get().roster_opt)


def read_opt(path: str | Path, roster_opt: Options | None = None) -> dict[str, Any]:
    """
    Return a model's options, from JSON or from an old pickled file.

    :param roster_opt: the roster's entry; by default that of the guard around.
    :raises UserError: when it is neither, or more than data.
    """
    if roster_opt is None:
        roster_opt = _current_guard.get().roster_opt
    trust = is_trusted_file(path)
    if not trust:
        check_files_beside(str(path), roster_opt)
    with open(path, 'rb') as file:
        data = file.read()
        try:
            opt = parse_json(data.decode('utf-8'))
        except ValueError as error:
            if data.lstrip()[:1] in (b'', b'{', b'['):
                raise read.unreadable(str(path), error) from error
            file.seek(0)  # a pickle, as ParlAI wrote it until 2019
            opt = pickle.load(file) if trust else read_in_child(read.read_options, path)
    if not isinstance(opt, dict):
        raise BadModelFile(str(path), 'it holds no options')
    read.check_values(str(path), opt, 'its options hold')
    if not trust:
        check_stored_options(str(path), opt, roster_opt)
    cleaned = parlai.core.opt.__AUTOCLEAN_KEYS__
    return {key: value for key, value in opt.items() if key not in cleaned}


def read_states(path: str | Path) -> dict[str, Any]:
    """
    Return the content of a model file, on the CPU: ``{'model': weights, …}``.

    :raises UserError: when it cannot be read, or is more than data.
    """
    if not is_trusted_file(path):
        return read.read_states(str(path))
    states: dict[str, Any] = _load_trusted_tensors(str(path), 'cpu')
    read.check_states(str(path), states)
    return states


def count_parameters(path: str | Path) -> int | None:
    """
    Return how many parameters a model file holds, shared ones once; `None` if that
    cannot be told, or of a trusted file only by running code from it.

    :raises Refused: for a file that is not trusted and would run code.
    """
    try:
        if safetensors_file.is_safetensors(path) or is_shipped(path):
            return read.stored_parameters(str(path))
        return int(read_in_child(read.stored_parameters, path))
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if isinstance(error, Refused) and not is_trusted_file(path):
            raise
        return None


def convert_states(source: str | Path, output: Path) -> tuple[list[str], int]:
    """
    Write the weights of a model file as safetensors, in a process of its own unless the
    user trusts it.

    :return: the entries that were left out, and how many tensors there are.
    :raises UserError: when it cannot be read, or safetensors cannot hold it.
    """
    if is_trusted_file(source):
        return _written(read_states(source), output)
    dropped, n_tensors = read_in_child(convert_file, source, output)
    return dropped, n_tensors


def convert_file(file: IO[bytes], output: str) -> tuple[list[str], int]:
    """
    Convert an open model file as `convert_states` does, in this process.
    """
    return _written(read.read_states(file), Path(output))


def _written(states: dict[str, Any], output: Path) -> tuple[list[str], int]:
    dropped = safetensors_file.write_states(states, output)
    written = read.read_states(str(output))['model']
    if not safetensors_file.same_bits(states['model'], written):
        raise UserError(f'{output}: the weights read back are not those written')
    return dropped, len(written)
