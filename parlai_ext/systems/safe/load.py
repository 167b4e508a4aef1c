"""
The guard: what ParlAI reads of a model inside of one runs no code.

ParlAI reads a model through few functions: `torch.load`, its own unpickler, `Opt.load`,
now and then `pickle.load` or `numpy.load`; and a model's `.opt` names the class that is
built. Ours take their places when the first guard is entered; outside of a guard they
do what the originals do. In a process of its own, where alone files of others are read,
there is no outside. What the options that come with a model may decide is checked, too.
"""

import contextlib
import filecmp
import functools
import glob
import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import numpy
import parlai.core.agents
import parlai.core.loader
import parlai.core.opt
import parlai.core.params
import parlai.core.tod.tod_agents
import parlai.utils.pickle
import torch
from torch.nn.modules import module as torch_modules
from torch.nn.parameter import is_lazy

from parlai_ext.compat.faults import HUB_REPOSITORIES
from parlai_ext.core import (
    JsonObject,
    UserError,
    frozen,
    parse_json,
    printable,
    text_option,
)
from parlai_ext.engines import data_folder
from parlai_ext.files import is_special
from parlai_ext.isolation.fork_server import is_confined
from parlai_ext.isolation.policy import (
    TASK_OPTIONS,
    is_our_agent,
    is_our_task,
    is_server,
    is_trusted_file,
    nested_values,
)
from parlai_ext.mini import SHIPPED
from parlai_ext.systems.safe import read
from parlai_ext.systems.safe.read import read_in_child, read_states
from parlai_ext.systems.safe.unpickle import BadModelFile, Refused, path_of

# What the options that come with a model (its `.opt`) may decide.
#
# They may name agents of ParlAI and ours; to name any other would run the module
# that it is in. No value may be the address of a server, nor name a file elsewhere
# than beside the model and in ParlAI's data folder, whatever its key: the lines of a
# ranker's file become its replies. All else is for the roster to say, or for a user
# who trusts it.

ROSTER_OPTIONS = re.compile(r'hf_trust_code|remote_\w+|safety_\w+|model_name')
# repositories that ParlAI loads its own models from
PARLAI_REPOSITORIES = [
    name for by_size in HUB_REPOSITORIES.values() for name in by_size.values()
]
SCHEME_PORTS = {'http': 80, 'https': 443, 'ws': 80, 'wss': 443}
# a word without dot or slash is the name of a file in these options only
FILE_OPTIONS = re.compile(r'file|path|vec|vocab|merge|arch')
# options of a training, and those by which BART writes other weights, converted; an
# honest model has them, and they are forgotten
TRAINING_OPTIONS = re.compile(
    r'init_\w+|dict_initpath|output_conversion_path|report_filename|image_path'
    r'|\w*data(file|path)|toxic_data'
)

# what a model may cost; more is for the roster to ask
MOST = {
    **dict.fromkeys(('beam_size', 'n_docs', 'topk_candidates'), 1_000),
    **dict.fromkeys(('truncate', 'text_truncate', 'label_truncate'), 1_000_000),
    **dict.fromkeys(('beam_min_length', 'max_doc_token_length'), 1_000_000),
    'n_positions': 1_000_000,  # of which ParlAI makes a table in Python
}


def check_stored_options(path: str, opt: JsonObject, roster_opt: JsonObject) -> None:
    """
    Refuse a model's stored options if they would run code, ask a server or read files
    that a model must not name.

    :param path: the model file or its ``.opt``.
    :param opt: the options stored with the model.
    :param roster_opt: the roster's entry, which the user wrote: it may name them.
    :raises Refused: naming the agent or the option.
    """
    for key, value in nested_values(opt):
        if key == 'model' and value and value != roster_opt.get('model'):
            if not is_our_agent(str(value)):
                raise Refused(
                    path,
                    f'it wants to run the agent {value} when read',
                    f'if you know it: `model: {value}` in the roster entry',
                )
        elif key in roster_opt:
            continue
        elif (
            bool(value) and value not in PARLAI_REPOSITORIES
            if ROSTER_OPTIONS.fullmatch(key)
            else is_server(key, value) and not TRAINING_OPTIONS.fullmatch(key)
        ):
            what = f'it wants to run with {key}, which a roster alone may set'
            raise _refused_option(path, key, what)
        elif key in MOST and _exceeds(value, MOST[key]):
            what = f'its own {key} is {value!r:.40}, more than {MOST[key]:,}'
            raise _refused_option(path, key, what)
    check_named_files(path, options_that_are_read(path, opt), roster_opt)


def check_named_files(path: str, opt: JsonObject, roster_opt: JsonObject) -> None:
    """
    Refuse options of a model that name files which are neither beside it nor in the
    data folder.

    :param path: as of `check_stored_options`.
    :param opt: those that are read.
    :param roster_opt: as of `check_stored_options`.
    :raises Refused: naming the option.
    """
    folders = _model_folders(path, roster_opt)
    for key, value in nested_values(opt):
        if key in roster_opt or TRAINING_OPTIONS.fullmatch(key):
            continue
        if is_elsewhere(value, folders):
            text = os.fsdecode(value)
            is_path = ('/' in text or '.' in text) and not os.path.isdir(text)
            if is_path or FILE_OPTIONS.search(key):
                shown = printable(text)[:200]
                what = f'its own {key} is {shown}, which is no file beside the model'
                raise _refused_option(path, key, what, shown)


def _refused_option(path: str, key: str, what: str, value: str = '…') -> Refused:
    return Refused(path, what, f'if you mean it: `{key}: {value}` in the roster entry')


def options_that_are_read(path: str, opt: JsonObject) -> JsonObject:
    """
    Return stored options without those that are dropped or replaced when they are read.
    """
    dropped = {*parlai.core.opt.__AUTOCLEAN_KEYS__, 'model_file', *TASK_OPTIONS}
    if Path(f'{path.removesuffix(".opt")}.dict').is_file():
        dropped.add('dict_file')  # see `options_for_talking`
    return {key: value for key, value in opt.items() if key not in dropped}


def check_model_files(path: str | Path, roster_opt: JsonObject | None = None) -> None:
    """
    Refuse files beside a model that the user does not trust (``model.dict``) that are
    links to files elsewhere, or pipes and devices.

    :param path: the model file or its ``.opt``.
    :param roster_opt: the roster's entry; by default that of the guard around.
    :raises Refused: naming the file.
    """
    if is_trusted_file(path):
        return
    path = str(path)
    model = Path(path.removesuffix('.opt'))
    folders = _model_folders(path, roster_opt or _current_guard.get().roster_opt)
    for file in model.parent.glob(f'{glob.escape(model.name)}.*'):
        beside = f'{os.path.realpath(model)}{file.name.removeprefix(model.name)}'
        what, hint = '', 'put a copy there'
        if os.path.realpath(file) != beside and is_elsewhere(str(file), folders):
            what = 'a link to a file that is not beside it'
        elif is_special(file):
            what, hint = 'a pipe or a device', 'put a file there'
        if what:
            raise Refused(path, f'{printable(str(file))} is {what}', hint, False)


def _exceeds(value: Any, most: int) -> bool:
    try:
        return float(value) > most
    except (TypeError, ValueError):  # no number: ParlAI says so
        return False
    except OverflowError:
        return True


def named_servers(roster_opt: JsonObject) -> list[tuple[str, int | None]]:
    """
    Return the hosts and ports that a roster's entry names, under whatever key.
    """
    servers: list[tuple[str, int | None]] = []
    for key, value in nested_values(roster_opt):
        if is_server(key, value):
            url = urlsplit(value.strip() if '://' in value else f'//{value.strip()}')
            try:
                port = url.port or SCHEME_PORTS.get(url.scheme)
            except ValueError:  # no number: no server has that port
                continue
            if url.hostname:
                servers.append((url.hostname, port))
    return servers


def options_for_talking(
    path: str, opt: JsonObject, roster_opt: JsonObject
) -> JsonObject:
    """
    Return options without those of the training.

    An honest model names the task that it was trained on, which a ranker would import;
    so tasks of other people's modules go. A dictionary elsewhere goes too: ParlAI then
    takes the model's own.
    """
    left = {k: v for k, v in opt.items() if not TRAINING_OPTIONS.fullmatch(str(k))}
    for key in TASK_OPTIONS:
        if key in left and not all(map(is_our_task, str(left[key]).split(','))):
            del left[key]
    folders = _model_folders(path, roster_opt)
    if 'dict_file' not in roster_opt and is_elsewhere(left.get('dict_file'), folders):
        del left['dict_file']
    return left


def _model_folders(path: str, roster_opt: JsonObject) -> list[Path]:
    return [Path(path).parent, Path(data_folder(text_option(roster_opt, 'datapath')))]


def is_elsewhere(value: Any, folders: Iterable[Path]) -> bool:
    """
    True if a value names a file that exists, but in none of the folders, or a pipe or a
    device anywhere.

    Links are followed. Hidden files of a folder are elsewhere: the folder may be
    somebody's home.
    """
    if not isinstance(value, str | bytes) or not value:
        return False
    try:
        real = Path(os.path.realpath(os.fsdecode(value)))
        if not real.exists():
            real = Path(f'{real}.opt')
            if not real.exists():
                return False
        if is_special(real):
            return True
    except (OSError, ValueError):  # too long, or a NUL: nothing opens that
        return False
    for folder in map(os.path.realpath, folders):
        if real.is_relative_to(folder):
            inside = real.relative_to(folder).parts
            if not any(part.startswith('.') for part in inside):
                return False
    return True


# --- what is read, and how ------------------------------------------------------------

# the originals
opt_load: Any = vars(parlai.core.opt.Opt)['load'].__func__
load_agent_module: Any = parlai.core.loader.load_agent_module
LOADING = parlai.core.loader, parlai.core.agents, parlai.core.params


@frozen
class _Guard:
    """
    One `guarded` block.

    :param roster_opt: the roster's entry of the system that is read.
    :param refusals: what the block has refused so far.
    """

    roster_opt: JsonObject = field(default_factory=dict)
    refusals: list[Refused] = field(default_factory=list)


_no_guard = _Guard()
_current_guard: ContextVar[_Guard] = ContextVar('parlai_ext_guard', default=_no_guard)


@contextlib.contextmanager
def guarded(roster_opt: JsonObject | None = None) -> Iterator[None]:
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
    for owner, name, ours in (
        (torch, 'load', _checked(torch.load, _load_tensors, _load_trusted_tensors)),
        (torch.jit, 'load', _checked(torch.jit.load, read.refuse_program)),
        (numpy, 'load', _checked(numpy.load, read.load_arrays)),
        (parlai.utils.pickle, 'load', _checked(pickled, read.read_pickle)),
        (parlai.core.tod.tod_agents, 'pickle', parlai.utils.pickle),
        (parlai.core.opt.Opt, 'load', classmethod(_load_opt)),
        *((module, 'load_agent_module', _load_agent_only) for module in LOADING),
    ):
        setattr(owner, name, ours)


def _is_free() -> bool:
    """
    True where files are read as ever: outside of guards, in the user's own process.
    """
    return _current_guard.get() is _no_guard and not is_confined()


def _checked(
    original: Callable[..., Any],
    load_other: Callable[..., Any],
    load_trusted: Callable[..., Any] | None = None,
) -> Callable[..., Any]:
    """
    Return a reader that gives a file which the guard trusts to `load_trusted`, by
    default the original one, and any other to `load_other`; what that refuses is kept,
    so that no caller on the way up can hide it.
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
    True if a file is byte for byte a model of this package, from which it was copied to
    the data folder.
    """
    ours = SHIPPED.joinpath(*Path(path).parts[-2:])
    return ours.is_file() and filecmp.cmp(path, ours, shallow=False)


def _load_trusted_tensors(
    f: Any, map_location: Any = None, pickle_module: Any = None, **options: Any
) -> Any:
    """
    Stand in for `torch.load`, which reads no safetensors and runs nothing by default.
    """
    if read.is_safetensors(f):
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


def _load_opt(cls: Any, optfile: str) -> Any:
    if _is_free():
        return opt_load(cls, optfile)
    guard = _current_guard.get()
    with _refusals_recorded():
        opt = read_opt(optfile)
        if not is_trusted_file(optfile):
            opt = options_for_talking(optfile, opt, guard.roster_opt)
    return cls(opt)


def _load_agent_only(agent_path: str) -> Any:
    """
    Let a model's options name agents only.

    ParlAI calls whatever class `model` names with the options, and
    ``subprocess:Popen`` would run them.
    """
    kind = load_agent_module(agent_path)
    is_agent = isinstance(kind, type) and issubclass(kind, parlai.core.agents.Agent)
    if not (is_agent or _is_free()):
        raise UserError(f'model: {agent_path} is no ParlAI agent')
    return kind


def read_opt(path: str | Path, roster_opt: JsonObject | None = None) -> JsonObject:
    """
    Return a model's options, from JSON or from an old pickled file.

    :param roster_opt: the roster's entry; by default that of the guard around.
    :raises UserError: when it is neither, or more than data.
    """
    if roster_opt is None:
        roster_opt = _current_guard.get().roster_opt
    trust = is_trusted_file(path)
    check_model_files(path, roster_opt)
    with open(path, 'rb') as file:
        data = file.read()
        try:
            opt = parse_json(data.decode('utf-8'))
        except ValueError as error:
            if data.lstrip()[:1] in (b'', b'{', b'['):
                raise read.unreadable(str(path), error) from error
            file.seek(0)  # a pickle, as ParlAI wrote it until 2019
            opt = pickle.load(file) if trust else read_in_child(read.pickled_opt, path)
    if not isinstance(opt, dict):
        raise BadModelFile(str(path), 'it holds no options')
    read.check_values(str(path), opt)
    if not trust:
        check_stored_options(str(path), opt, roster_opt)
    cleaned = parlai.core.opt.__AUTOCLEAN_KEYS__
    return {key: value for key, value in opt.items() if key not in cleaned}


def count_parameters(path: str | Path) -> int | None:
    """
    Return how many parameters a model file holds, shared ones once; `None` if that
    cannot be told, or of a trusted file only by running code from it.

    :raises Refused: for a file that is not trusted and would run code.
    """
    try:
        if read.is_safetensors(path) or is_shipped(path):
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
        states: dict[str, Any] = _load_trusted_tensors(str(source), 'cpu')
        read.check_states(str(source), states)
        return _written(states, output)
    dropped, n_tensors = read_in_child(convert_file, source, output)
    return dropped, n_tensors


def convert_file(file: IO[bytes], output: str) -> tuple[list[str], int]:
    """
    Convert an open model file as `convert_states` does, in this process.
    """
    return _written(read_states(file), Path(output))


def _written(states: dict[str, Any], output: Path) -> tuple[list[str], int]:
    dropped = read.write_states(states, output)
    written = read_states(str(output))['model']
    if not read.same_bits(states['model'], written):
        raise UserError(f'{output}: the weights read back are not those written')
    return dropped, len(written)


# --- what a model costs that is built -------------------------------------------------
# How many weights and parts a model may have, by the size of its files.
#
# Options that come with a model may claim a billion layers. torch tells a hook of each
# weight before it is filled, so that a model which its files cannot hold is refused
# before it costs anything.

WEIGHTS_A_BYTE = 4  # as of weights in 2 bits, the smallest that there are
MORE_WEIGHTS = 500_000_000  # of parts that an agent brings along, such as a BERT
MOST_MODULES = 100_000  # layers and their parts


@dataclass(eq=False)
class _Bound:
    """
    What one model may cost, and what it has cost so far.
    """

    path: str
    n_bytes: int
    n_weights: int = 0
    n_modules: int = 0
    problem: str = ''

    def count_weight(self, module: Any, name: str, weight: Any) -> None:
        before = module._parameters.get(name)  # which this one replaces
        self.n_weights += _size(weight) - _size(before)
        most = WEIGHTS_A_BYTE * self.n_bytes + MORE_WEIGHTS
        if self.n_weights > most:
            raise self.refusal(f'more than {most:,} weights')

    def count_module(self, module: Any, name: str, part: Any) -> None:
        self.n_modules += 1
        if self.n_modules > MOST_MODULES:
            raise self.refusal(f'more than {MOST_MODULES:,} layers and parts')

    def refusal(self, what: str) -> BadModelFile:
        self.problem = self.problem or (
            f'its options ask for {what}, and its files have {self.n_bytes:,} bytes'
        )
        return BadModelFile(self.path, self.problem)


def _size(weight: Any) -> int:
    if weight is None or is_lazy(weight):
        return 0
    return int(weight.numel())


@contextmanager
def bounded_cost(path: str | Path, files: Iterable[Path] = ()) -> Iterator[None]:
    """
    Refuse a model that costs more, while it is loaded inside, than files of this size
    can mean.

    :param path: its file or folder, for the message.
    :param files: all files that it is read from; of a folder, those in it.
    :raises BadModelFile: naming the file and the limit.
    """
    path = Path(path)
    found = path.iterdir() if path.is_dir() else (path, *files)
    n_bytes = sum(file.stat().st_size for file in set(found) if file.is_file())
    bound = _Bound(str(path), n_bytes)
    hooks = (
        torch_modules.register_module_parameter_registration_hook(bound.count_weight),
        torch_modules.register_module_module_registration_hook(bound.count_module),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    if bound.problem:  # which a caller on the way up has hidden
        raise BadModelFile(bound.path, bound.problem)
