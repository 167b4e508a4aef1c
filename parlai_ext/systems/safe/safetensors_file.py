"""
A ParlAI model as safetensors: weights by name, and its other entries as JSON.

The file can be read by any program that reads safetensors. Tensors that share memory
are there once; their other names, and ParlAI's small entries, are in the metadata.
"""

import contextlib
import json
import os
import re
import struct
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from parlai_ext.core import UserError, parse_json
from parlai_ext.systems.safe.unpickle import BadModelFile, path_of

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


@contextlib.contextmanager
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
    return first[8:] == b'{' and _size_of_header(first) <= LONGEST_HEADER


def _size_of_header(first: bytes) -> int:
    return int(struct.unpack('<Q', first[:8])[0])


def read_safetensors(f: Any, map_location: Any) -> dict[str, Any]:
    """
    Return what ParlAI expects of a model file: ``{'model': weights, …}``.
    """
    ours = _our_metadata(f)
    path = path_of(f)
    if os.path.isfile(path):
        tensors = safetensors.torch.load_file(path)
    else:
        tensors = safetensors.torch.load(f.read())
    if isinstance(map_location, str | torch.device):
        tensors = {name: t.to(map_location) for name, t in tensors.items()}
    shared = ours.get('shared', {})
    names = ours.get('names', list(tensors))
    try:
        weights = OrderedDict((n, tensors[shared.get(n, n)]) for n in names)
    except KeyError as error:
        raise BadModelFile(path, f'there is no tensor {error}') from error
    return {'model': weights, **ours.get('entries', {})}


def _our_metadata(f: Any) -> dict[str, Any]:
    """
    Return what `write_states` wrote into the metadata; {} for other programs' files.

    :raises BadModelFile: when the header of the file is damaged.
    """
    with opened(f) as file:
        try:
            size = _size_of_header(file.read(8))
            text = file.read(size)
            if len(text) < size:
                raise ValueError(
                    f'{size:,} bytes were announced, {len(text):,} are there'
                )
            header = parse_json(text.decode('utf-8'))
            ours = parse_json(header.get('__metadata__', {}).get(KEY, '{}'))
        except (ValueError, TypeError, AttributeError) as error:
            problem = f'its header (of safetensors) is damaged: {error}'
            raise BadModelFile(path_of(f), problem) from error
    return ours if isinstance(ours, dict) else {}


@contextlib.contextmanager
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
    # for each name of a tensor that is there already, its first name
    shared: dict[str, str] = {}
    first: dict[Any, str] = {}
    for name, t in weights.items():
        place = (t.data_ptr(), t.dtype, tuple(t.shape), t.stride(), t.device)
        if t.numel() and place in first:
            shared[name] = first[place]
        first.setdefault(place, name)
    kept = {n: t.detach().cpu() for n, t in weights.items() if n not in shared}
    ours = {'entries': entries, 'names': list(weights), 'shared': shared}
    try:
        with disk_errors(path):
            safetensors.torch.save_file(
                {
                    name: t.clone(memory_format=torch.contiguous_format)
                    for name, t in kept.items()
                },
                path,
                {'format': 'pt', KEY: json.dumps(ours, sort_keys=True)},
            )
    except (KeyError, ValueError, safetensors.SafetensorError) as error:
        raise UserError(f'safetensors cannot hold this model: {error}') from error
    _sort_metadata(path)
    return dropped


def _sort_metadata(path: str | Path) -> None:
    """
    Put a file's metadata in order: safetensors writes the same entries in another order
    each time, and the hash of its file is a model's identity.
    """
    with open(path, 'r+b') as file:
        (size,) = struct.unpack('<Q', file.read(8))
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
    except (TypeError, ValueError):
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
