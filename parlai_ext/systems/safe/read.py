"""
Readers of the files of a model, none of which runs anything from them, and a ParlAI
model written as safetensors.
"""

import json
import os
import pickle
import re
import tarfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, NoReturn

import numpy as np
import safetensors.torch
import torch

from parlai_ext.core import (
    DATA_ERRORS,
    UserError,
    first_line,
    parse_json,
    parse_own_json,
)
from parlai_ext.files import open_zip
from parlai_ext.isolation.fork_server import ForkedTask, ForkedWorker, is_confined
from parlai_ext.systems.safe.unpickle import (
    BadModelFile,
    Refused,
    path_of,
    pickle_module,
)

MOST_VALUES = 1_000_000  # of a model's options, and of what is beside its weights
MOST_UNPACKED = 100  # times the size of a file of arrays, which may be compressed
torch_load, numpy_load = torch.load, np.load  # the originals, which a guard replaces


@contextmanager
def errors_named(path: str) -> Iterator[None]:
    """
    Turn what a reader raises over a damaged file into one line with its name.
    """
    try:
        yield
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: Exception) -> BadModelFile:
    """
    Return the error for a file over which a reader raised another.
    """
    kind, words = type(error).__name__, first_line(error)[:300]
    reason = kind if words == kind else f'{kind}: {words}'
    return BadModelFile(path, f'it cannot be read: {reason}')


def read_tensors(f: Any, map_location: Any = 'cpu') -> Any:
    """
    Return what `torch.save` or `safetensors` wrote.
    """
    if isinstance(f, str | os.PathLike):
        # torch reads a path by its ending, not its content
        with open(f, 'rb') as file:
            return read_tensors(file, map_location)
    path = path_of(f)
    with errors_named(path):
        if is_safetensors(f):
            return read_safetensors(f, map_location)
        with opened(f), suppress(tarfile.TarError):
            tarfile.open(fileobj=f, mode='r:').close()  # an error where it is none
            # torch would unpack a tar without a look at its members, which may be links
            # to any file, pipes and devices; its own `weights_only` refuses it, too
            raise Refused(
                path,
                'it is a tar (torch 0.1), whose links and devices torch would unpack',
            )
        _check_zip(f, path, most=1)
        return torch_load(f, map_location, pickle_module(path), weights_only=False)


def write_tensors(file: IO[bytes], output: str) -> list[str]:
    """
    Write the tensors of a checkpoint of transformers as safetensors; return the names.
    """
    tensors = read_tensors(file)
    write_states({'model': tensors}, output)
    return list(tensors)


def check_states(path: str, states: Any) -> None:
    """
    Refuse the content of a model file that is not ``{'model': weights, …}``.
    """
    if not isinstance(states, dict) or not isinstance(states.get('model'), dict):
        raise BadModelFile(path, 'it holds no weights of a ParlAI model')


def read_states(f: Any) -> dict[str, Any]:
    """
    Return the content of a model file of ParlAI: ``{'model': weights, …}``.
    """
    path, states = path_of(f), read_tensors(f)
    check_states(path, states)
    check_values(path, states)  # lists in one another: more than any disk
    return states


def stored_parameters(f: Any) -> int:
    """
    Return how many parameters a model file holds, shared ones once. They are not read.
    """
    with torch.serialization.skip_data():
        states = read_states(f)
    tensors = [v for v in states['model'].values() if isinstance(v, torch.Tensor)]
    return sum({(t.data_ptr(), t.numel()): t.numel() for t in tensors}.values())


def _check_zip(file: IO[bytes], path: str, most: int) -> None:
    """
    Refuse a zip that is far larger when it is unpacked.

    :param most: how many times as large as the file its content may be. torch
        compresses nothing.
    """
    with opened(file):
        start = file.tell()
        if file.read(4) != b'PK\x03\x04':  # by which torch, too, knows a zip
            return
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
        with open_zip(file) as zipped:
            unpacked = sum(info.file_size for info in zipped.infolist())
    if unpacked > most * size:
        raise Refused(path, f'its {size:,} bytes unpack to {unpacked:,}')


def read_pickle(file: IO[bytes]) -> Any:
    """
    Return the data of a plain pickle.
    """
    path = path_of(file)
    with errors_named(path):
        return pickle_module(path).load(file)


def pickled_opt(file: IO[bytes]) -> Any:
    """
    Return the options in a plain pickle, as ParlAI wrote them until 2019.
    """
    opt = read_pickle(file)
    check_values(path_of(file), opt)
    return opt


class Arrays(dict[str, np.ndarray]):
    """
    The arrays that `numpy.savez` wrote, in memory.
    """

    @property
    def files(self) -> list[str]:
        return list(self)

    def __enter__(self) -> 'Arrays':
        return self

    def __exit__(self, *exc: object) -> None:
        """
        Close nothing: no file is open.
        """


def load_arrays(
    f: Any, mmap_mode: Any = None, allow_pickle: bool = False, **options: Any
) -> Any:
    """
    Stand in for `numpy.load`: arrays of objects are read as data.
    """
    if not allow_pickle:
        return numpy_load(f, mmap_mode, **options)
    path = path_of(f)
    with opened(f) as file, errors_named(path):
        _check_zip(file, path, MOST_UNPACKED)
        before, pickle.load = pickle.load, pickle_module(path).load  # for numpy
        try:
            arrays = numpy_load(file, allow_pickle=True)
            return arrays if isinstance(arrays, np.ndarray) else Arrays(arrays)
        finally:
            pickle.load = before


def refuse_program(f: Any, *_: Any, **__: Any) -> NoReturn:
    """
    Stand in for `torch.jit.load`, which `torch.load`, too, calls.
    """
    raise Refused(path_of(f), 'it wants to run a TorchScript program when read')


def check_values(path: str, value: Any) -> None:
    """
    Refuse data of a model with too many values, or nested too deeply.
    """
    try:
        n_values = _count_values(value, {})
    except RecursionError as error:
        raise BadModelFile(path, 'it cannot be read: nested too deeply') from error
    if n_values > MOST_VALUES:
        raise BadModelFile(path, f'it holds more than {MOST_VALUES:,} values')


def _count_values(value: Any, counts: dict[int, int]) -> int:
    """
    Return how many values there are in a value, as JSON would write it: a list that a
    pickle has in two places counts twice, so that a few lists in one another may hold
    more than any disk. A circle ends where it closes.

    :param counts: of the containers that were counted, by id.
    """
    if not isinstance(value, dict | list | tuple | set):
        return 1
    if id(value) not in counts:
        counts[id(value)] = 1
        parts = value.values() if isinstance(value, dict) else value
        counts[id(value)] += sum(_count_values(part, counts) for part in parts)
    return counts[id(value)]


# --- single files of others are read in processes of their own ------------------------
# No pickle is opened in this one. For each file a worker is forked
# (`isolation/fork_server.py`) with limits on time, memory and the size of files. It
# reads by the allow-list of `unpickle.py`, and says what it read as JSON. A file that
# never ends, takes all memory or crashes its parser ends its reader only.

SECONDS = 60  # of processor time, twice as many by the clock, and one more for each
BYTES_A_SECOND = 2_000_000
MEMORY = 4 * 2**30  # bytes besides those of the libraries, and so many times the file:
COPIES = 8
CHILD = 'parlai_ext.systems.safe.read:reader'
PROBLEMS = {kind.__name__: kind for kind in (Refused, BadModelFile, UserError, OSError)}


def read_in_child(
    read: Callable[..., Any], path: str | Path, output: Path | None = None
) -> Any:
    """
    Return what a function of a module reads from a file, in another process, as JSON
    gives it back.

    :param read: takes an open file, and the output where there is one.
    :param output: a file that it is to write.
    :raises BadModelFile: naming the file.
    """
    path = str(path)
    if is_confined() and output is None:  # which is a process of its own already
        with open(path, 'rb') as file:
            return read(file)
    size = os.path.getsize(path)
    memory, seconds = MEMORY + COPIES * size, SECONDS + size // BYTES_A_SECOND
    given = {
        'name': f'{read.__module__}:{read.__name__}',
        'place': os.getcwd(),
        'files': [path, str(output)] if output else [path],
    }
    folder = str(output.absolute().parent) if output else None
    modules = (read.__module__,)  # imported once, not by each reader
    worker = ForkedWorker(
        ForkedTask(CHILD, given, memory, folder, seconds, modules=modules)
    )
    try:
        kind, value = worker.ask(None, None)
    except UserError:
        raise BadModelFile(
            path,
            'it crashes the reader, or reading it takes more than '
            f'{seconds:,} seconds or {memory / 2**30:,.1f} GiB',
        ) from None
    if kind:
        raise PROBLEMS[kind](*value)
    return value


def reader(
    missing: Sequence[str],
    ask_back: object,
    name: str,
    place: str,
    files: list[str],
) -> Callable[[Any], tuple[str, Any]]:
    """
    Return what reads a file in the other process, and says what it holds or what is
    wrong with it.
    """
    path, *output = files

    def answer(_: Any) -> tuple[str, Any]:
        try:
            os.chdir(place)
            with errors_named(path), open(path, 'rb') as file:
                value = resolve_name(name)(file, *output)
                return '', parse_own_json(json.dumps(value, default=vars))
        except (UserError, OSError) as error:
            kind = 'OSError' if isinstance(error, OSError) else type(error).__name__
            return kind, error.__reduce__()[1]

    return answer


# --- models as safetensors ------------------------------------------------------------
# A ParlAI model as safetensors: weights by name, and its other entries as JSON.
#
# The file can be read by any program that reads safetensors. Tensors that share memory
# are there once; their other names, and ParlAI's small entries, are in the metadata.

LONGEST_HEADER = 100_000_000  # the format's own bound
KEY = 'parlai_ext'
# entries that only training needs
TRAINING = (
    'optimizer',
    'optimizer_type',
    'lr_scheduler',
    'lr_scheduler_type',
    'warmup_scheduler',
)
Weights = Mapping[str, torch.Tensor]


@contextmanager
def opened(f: Any) -> Iterator[Any]:
    """
    Give the file of a path; leave one that is open already where it was.
    """
    if isinstance(f, str | os.PathLike):
        with open(f, 'rb') as file:
            yield file
        return
    start = f.tell()
    try:
        yield f
    finally:
        f.seek(start)


def is_safetensors(f: Any) -> bool:
    """
    True if a path, or an open file, begins as safetensors do: with the size of a header
    and a brace. No pickle and no archive begins so. The file is left where it was.
    """
    with opened(f) as file:
        first = file.read(9)
    size = int.from_bytes(first[:8], 'little')
    return first[8:] == b'{' and size <= LONGEST_HEADER


def read_safetensors(f: Any, map_location: Any) -> dict[str, Any]:
    """
    Return what ParlAI expects of a model file: ``{'model': weights, …}``.
    """
    path = path_of(f)
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, 'pt') as file:
        ours = parse_json((file.metadata() or {}).get(KEY, '{}'))
    if isinstance(map_location, str | torch.device):
        tensors = {name: t.to(map_location) for name, t in tensors.items()}
    shared = ours.get('shared', {})
    names = ours.get('names', list(tensors))
    try:
        weights = OrderedDict((n, tensors[shared.get(n, n)]) for n in names)
    except KeyError as error:
        raise BadModelFile(path, f'there is no tensor {error}') from error
    return {'model': weights, **ours.get('entries', {})}


@contextmanager
def disk_errors(path: str | Path) -> Iterator[None]:
    """
    Turn an error of the disk into the `OSError` that it is, where safetensors and
    tokenizers write: their Rust gives its number in words only.

    :param path: what is written, for the message.
    """
    try:
        yield
    except Exception as error:
        number = re.search(r'\(os error (\d+)\)', str(error))
        if number is None or isinstance(error, OSError):
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(path)) from None


def write_states(states: Mapping[str, Any], path: str | Path) -> list[str]:
    """
    Write a model's states as safetensors, without what only training needs.

    :return: the entries that were left out.
    :raises UserError: for an entry that safetensors cannot hold.
    """
    weights = states['model']
    dropped = [key for key in states if key in TRAINING]
    entries = {
        key: _as_json_value(key, value)
        for key, value in states.items()
        if key != 'model' and key not in TRAINING
    }
    for name, value in weights.items():
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            raise UserError(f'model: {name} is no plain tensor; safetensors holds none')
    shared = shared_names(weights)
    kept = {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, t in weights.items()
        if name not in shared
    }
    ours = {'entries': entries, 'names': list(weights), 'shared': shared}
    try:
        with disk_errors(path):
            safetensors.torch.save_file(
                kept, path, {'format': 'pt', KEY: json.dumps(ours, sort_keys=True)}
            )
    except (KeyError, ValueError, safetensors.SafetensorError) as error:
        raise UserError(f'safetensors cannot hold this model: {error}') from error
    _sort_metadata(path)
    return dropped


def shared_names(weights: Weights) -> dict[str, str]:
    """
    Return, for each name of a tensor that is there already, its first name.
    """
    shared: dict[str, str] = {}
    first: dict[Any, str] = {}
    for name, t in weights.items():
        place = (t.data_ptr(), t.dtype, tuple(t.shape), t.stride(), t.device)
        if t.numel() and place in first:
            shared[name] = first[place]
        first.setdefault(place, name)
    return shared


def _sort_metadata(path: str | Path) -> None:
    """
    Put a file's metadata in order: safetensors writes the same entries in another order
    each time, and the hash of its file is a model's identity.
    """
    with open(path, 'r+b') as file:
        size = int.from_bytes(file.read(8), 'little')
        before = file.read(size)
        header = parse_json(before)
        header['__metadata__'] = dict(sorted(header['__metadata__'].items()))
        text = json.dumps(header, ensure_ascii=False, separators=(',', ':')).encode()
        if len(text) > size:
            raise UserError(f'{path}: its metadata cannot be put in order')
        file.seek(8)
        file.write(text.ljust(size))


def _as_json_value(key: str, value: Any) -> Any:
    """
    Return an entry as JSON gives it back.

    :raises UserError: when JSON would change it.
    """
    value = value.item() if type(value).__module__ == 'numpy' else value
    try:
        if parse_json(json.dumps(value)) == value:
            return value
    except DATA_ERRORS:
        pass
    raise UserError(
        f'the entry {key!r} is more than safetensors can hold beside weights'
    )


def same_bits(left: Weights, other: Weights) -> bool:
    """
    True if two models have the same names and the same bits.
    """
    return list(left) == list(other) and all(
        left[name].dtype == other[name].dtype
        and left[name].shape == other[name].shape
        and torch.equal(_bits(left[name]), _bits(other[name]))
        for name in left
    )


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """
    Return the bytes of a tensor, so that NaN equals itself and -0 is not 0.
    """
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
