"""
The guard: while it is active, nothing that ParlAI reads of a model runs code.

ParlAI reads a model through few functions: `torch.load`, its own unpickler, `Opt.load`,
now and then `pickle.load` or `numpy.load`; and a model's `.opt` names the class that is
built. Each is replaced, for the whole process, while any guard is active.
"""

import contextlib
import filecmp
import os
import pickle
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

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
from parlai_ext.files.option_files import sha256
from parlai_ext.isolation.confinement import is_confined
from parlai_ext.isolation.names import Options
from parlai_ext.isolation.own_records import is_trusted_file, note_trust
from parlai_ext.systems.fetch.data_folder import local_path
from parlai_ext.systems.safe import read, safetensors_file
from parlai_ext.systems.safe.model_options import (
    check_files_beside,
    check_stored_options,
    options_for_talking,
)
from parlai_ext.systems.safe.unpickle import (
    UNNAMED,
    BadModelFile,
    Refused,
    path_of,
)

# models that came with this package, and were copied to the data folder
SHIPPED = Path(__file__).resolve().parents[2] / 'mini' / 'zoo'


@dataclass(frozen=True)
class _Guard:
    """
    One `guarded` block.

    :param trusted: real paths of the files that may run code.
    :param roster_opt: the roster's entry of the system that is read.
    :param refusals: what the block has refused so far.
    """

    trusted: frozenset[str] = frozenset()
    roster_opt: Options = field(default_factory=dict)
    refusals: list[Refused] = field(default_factory=list)

    def trusts(self, path: str | Path) -> bool:
        return os.path.realpath(path) in self.trusted or is_trusted_file(path)


_no_guard = _Guard()
_current_guard: ContextVar[_Guard] = ContextVar('parlai_ext_guard', default=_no_guard)
_lock = threading.Lock()
_n_active = 0
_undo = contextlib.ExitStack()


@contextlib.contextmanager
def guarded(
    trusted: Collection[str] | None = None, roster_opt: Options | None = None
) -> Iterator[None]:
    """
    Read model files, their options and their caches as data only.

    The innermost guard of a thread that says what is trusted decides; a thread without
    any trusts nothing while another has one.

    :param trusted: files that may run code: they are read as ParlAI does; by default
        those of the guard around this one.
    :param roster_opt: the roster's entry of the system that is read; it may name an
        agent that the model's own `.opt` may not.
    :raises Refused: naming file and global; also where ParlAI would have hidden it.
    """
    outer = _current_guard.get()
    guard = _Guard(
        outer.trusted if trusted is None else frozenset(map(os.path.realpath, trusted)),
        outer.roster_opt if roster_opt is None else roster_opt,
    )
    with _replaced_readers():
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


@contextlib.contextmanager
def _replaced_readers() -> Iterator[None]:
    """
    Have our readers in the place of ParlAI's until the last guard ends.
    """
    global _n_active
    with _lock:
        if not _n_active:
            for owner, name, ours in _replacements():
                _undo.callback(setattr, owner, name, vars(owner)[name])
                setattr(owner, name, ours)
        _n_active += 1
    try:
        yield
    finally:
        with _lock:
            _n_active -= 1
            if not _n_active:
                _undo.close()


def _replacements() -> list[tuple[Any, str, Any]]:
    """
    Return (owner, name, ours) for each way in which ParlAI reads a model.
    """
    agents_only = _agents_only(parlai.core.loader.load_agent_module)
    loading = (parlai.core.loader, parlai.core.agents, parlai.core.params)
    load_pickle = partial(_read, read.read_pickle)
    return [
        (torch, 'load', _checked(_load_trusted_tensors, _load_tensors)),
        (torch.jit, 'load', _checked(torch.jit.load, read.refuse_program)),
        (numpy, 'load', _checked(numpy.load, partial(_load_arrays, numpy.load))),
        (parlai.utils.pickle, 'load', _checked(parlai.utils.pickle.load, load_pickle)),
        (parlai.core.tod.tod_agents, 'pickle', parlai.utils.pickle),
        (parlai.core.opt.Opt, 'load', classmethod(_load_opt)),
        *((module, 'load_agent_module', agents_only) for module in loading),
    ]


def _checked(
    load_trusted: Callable[..., Any], load_other: Callable[..., Any]
) -> Callable[..., Any]:
    """
    Return a reader that gives a file which the guard trusts to one function and any
    other to another; what that refuses is kept, so that no caller on the way up can
    hide it.
    """

    def load(f: Any, *args: Any, **options: Any) -> Any:
        if _current_guard.get().trusts(path_of(f)):
            return load_trusted(f, *args, **options)
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


def _read(read_file: Callable[..., Any], f: Any, **options: Any) -> Any:
    """
    Return the data in a file that is not trusted: what only another process may read is
    read there.

    :param read_file: a function of `read.py`.
    :param options: ``map_location``, where it reads tensors.
    """
    path = path_of(f)
    has_tensors = read_file in (read.read_tensors, read.stored_parameters)
    if has_tensors and (safetensors_file.is_safetensors(f) or is_shipped(path)):
        return read_file(f, **options)
    if is_confined():
        with open(f, 'rb') if isinstance(f, str | os.PathLike) else nullcontext(f) as g:
            return read_file(g, **options)
    from parlai_ext.systems.safe.reader import read_in_child

    if path == UNNAMED or (hasattr(f, 'tell') and f.tell()):
        with NamedTemporaryFile() as rest:
            rest.write(f.read())
            rest.flush()
            return read_in_child(read_file, rest.name, **options)
    return read_in_child(read_file, f, **options)


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
        return _read(read.read_tensors, f, map_location=map_location)
    except Refused as refused:
        if not options.get('weights_only'):
            raise
        # trusting the file would not help: torch, too, refuses it
        path, what, _, _, sentence = refused.given
        hint = 'weights as safetensors would do'
        raise Refused(path, what, hint, False, sentence) from None


def _load_arrays(
    original: Any,
    file: Any,
    mmap_mode: Any = None,
    allow_pickle: bool = False,
    **options: Any,
) -> Any:
    if not allow_pickle:
        return original(file, mmap_mode, **options)
    arrays = _read(read.read_arrays, file)
    return read.Arrays(arrays) if isinstance(arrays, dict) else arrays


def _load_opt(cls: Any, optfile: str) -> Any:
    guard = _current_guard.get()
    with _refusals_recorded():
        opt = read_opt(optfile)
        if not guard.trusts(optfile):
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
        if not (isinstance(kind, type) and issubclass(kind, parlai.core.agents.Agent)):
            raise UserError(f'model: {agent_path} is no ParlAI agent')
        return kind

    return load_agent_module


def check_model_files(path: str | Path) -> None:
    """
    Refuse links to files elsewhere, pipes and devices beside a model that the guard
    around does not trust.

    :raises Refused: naming the file.
    """
    guard = _current_guard.get()
    if not guard.trusts(path):
        check_files_beside(str(path), guard.roster_opt)


def trusts_file(path: str | Path) -> bool:
    """
    True if the guard around lets a file run code.
    """
    return _current_guard.get().trusts(path)


def read_opt(path: str | Path, roster_opt: Options | None = None) -> dict[str, Any]:
    """
    Return a model's options, from JSON or from an old pickled file.

    :param roster_opt: the roster's entry; by default that of the guard around.
    :raises UserError: when it is neither, or more than data.
    """
    guard = _current_guard.get()
    roster_opt = guard.roster_opt if roster_opt is None else roster_opt
    trusts = guard.trusts(path)
    if not trusts:
        check_files_beside(str(path), roster_opt)
    with open(path, 'rb') as file:
        data = file.read()
        try:
            opt = parse_json(data.decode('utf-8'))
        except ValueError as error:
            if data.lstrip()[:1] in (b'', b'{', b'['):
                raise read.unreadable(str(path), error) from error
            file.seek(0)  # a pickle, as ParlAI wrote it until 2019
            opt = pickle.load(file) if trusts else _read(read.read_pickle, file)
    if not isinstance(opt, dict):
        raise BadModelFile(str(path), 'it holds no options')
    read.check_values(str(path), opt, 'its options hold')
    if not trusts:
        check_stored_options(str(path), opt, roster_opt)
    cleaned = parlai.core.opt.__AUTOCLEAN_KEYS__
    return {key: value for key, value in opt.items() if key not in cleaned}


def read_states(path: str | Path) -> dict[str, Any]:
    """
    Return the content of a model file, on the CPU: ``{'model': weights, …}``.

    :raises UserError: when it cannot be read, or is more than data.
    """
    trusts = trusts_file(path)
    with guarded():
        states: dict[str, Any] = torch.load(str(path), 'cpu', parlai.utils.pickle)
    read.check_states(str(path), states)
    if not trusts:  # lists in one another may hold more than any disk
        read.check_values(str(path), states, 'it holds')
    return states


def count_parameters(path: str | Path, refusing: bool = False) -> int | None:
    """
    Return how many parameters a model file holds, shared ones once; `None` if that
    cannot be told without running code from it.

    :param refusing: raise `Refused` for such a file, unless it is trusted.
    """
    try:
        return int(_read(read.stored_parameters, str(path)))
    except (UserError, OSError, MemoryError, RuntimeError) as error:
        if refusing and isinstance(error, Refused) and not trusts_file(path):
            raise
        return None


def trust_files(names: Sequence[str] | None) -> contextlib.AbstractContextManager[None]:
    """
    Let the files of ``--trust-model-code`` run code, and read all others as data.
    Without such files nothing changes: systems are loaded as data anyway.
    """
    if not names:
        return contextlib.nullcontext()
    files = _existing_files(names)
    return guarded([f'{file}{suffix}' for file in files for suffix in ('', '.opt')])


def note_trusted(names: Sequence[str]) -> None:
    """
    Note that the user trusts the files of ``--trust-model-code``, also in later
    commands.
    """
    files = _existing_files(names)
    options = [Path(f'{file}.opt') for file in files]
    note_trust([*files, *(file for file in options if file.is_file())])


def trusted_hashes(names: Sequence[str] | None) -> dict[str, str]:
    """
    Return the hash of each trusted file by its name; where names are the same, by as
    much of the path as tells them apart.
    """
    paths = map(os.path.realpath, _existing_files(names or ()))
    files = [Path(path) for path in dict.fromkeys(paths)]
    hashes: dict[str, str] = {}
    for file in files:
        n = 1
        while any(o.parts[-n:] == file.parts[-n:] for o in files if o != file):
            n += 1
        hashes['/'.join(file.parts[-n:])] = sha256(file)
    return hashes


def _existing_files(names: Sequence[str]) -> list[Path]:
    files = [local_path(name) for name in names]
    for file in files:
        if not file.is_file():
            raise UserError(f'--trust-model-code: there is no file {file}')
    return files
