"""
Readers of what a model consists of, each without running anything from it.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import zipfile
from types import ModuleType
from typing import IO, Any

import numpy as np
import parlai.utils.pickle
import torch

from parlai_ext.core.errors import UserError
from parlai_ext.systems.safe import safetensors_file
from parlai_ext.systems.safe.unpickle import (
    BadModelFile,
    Refused,
    path_of,
    pickle_module,
)


class _Theirs:
    """
    The functions that a guard replaces, for files that are trusted.
    """

    torch_load = staticmethod(torch.load)
    jit_load = staticmethod(torch.jit.load)
    pickle_load = staticmethod(pickle.load)
    numpy_load = staticmethod(np.load)
    pickle_module = ModuleType('parlai_pickle')


THEIRS = _Theirs()
vars(THEIRS.pickle_module).update(
    load=parlai.utils.pickle.load, Unpickler=parlai.utils.pickle.Unpickler
)


def called_by_parlai(depth: int) -> bool:
    """
    Tell whether the function ``depth`` calls up belongs to ParlAI.
    """
    caller = str(sys._getframe(depth).f_globals.get('__name__'))
    return caller.partition('.')[0] in ('parlai', 'projects')


def tensors(
    f: Any, map_location: Any = None, *, mmap: bool | None = None, **options: Any
) -> Any:
    """
    Read what `torch.save` or `safetensors` wrote.
    """
    path = path_of(f)
    options |= {'mmap': mmap, 'weights_only': False}
    try:
        if safetensors_file.is_safetensors(f):
            return safetensors_file.read_states(f, map_location)
        module = pickle_module(path)
        if mmap or not isinstance(f, str | os.PathLike):
            return THEIRS.torch_load(f, map_location, module, **options)
        with open(f, 'rb') as file:  # torch reads a path by its ending, not its content
            return THEIRS.torch_load(file, map_location, module, **options)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def pickled(file: IO[bytes], **options: Any) -> Any:
    """
    Read a plain pickle.
    """
    path = path_of(file)
    try:
        return pickle_module(path).load(file, **options)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def _unreadable(path: str, error: Exception) -> BadModelFile:
    words = str(error).strip().split('\n')[0]
    kind = type(error).__name__
    reason = f'{kind}: {words}' if words else kind
    return BadModelFile(path, f'it cannot be read: {reason}')


class Arrays(dict[str, np.ndarray]):
    """
    What `numpy.savez` wrote, in memory.
    """

    @property
    def files(self) -> list[str]:
        return list(self)

    def close(self) -> None:
        """
        Nothing is open.
        """

    def __enter__(self) -> Arrays:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def arrays(f: Any) -> Any:
    """
    Read what `numpy.save` or `numpy.savez` wrote, objects among it.
    """
    path = path_of(f)
    if isinstance(f, str | os.PathLike):
        with open(f, 'rb') as file:
            return arrays(file)
    start = f.tell()
    magic = f.read(6)
    f.seek(start)
    try:
        if magic.startswith(b'PK'):
            with zipfile.ZipFile(f) as zipped:
                names = zipped.namelist()
                members = {n.removesuffix('.npy'): zipped.read(n) for n in names}
            return Arrays((n, _array(io.BytesIO(d), path)) for n, d in members.items())
        return _array(f, path) if magic == b'\x93NUMPY' else pickled(f)
    except (UserError, OSError, MemoryError):
        raise
    except Exception as error:
        raise _unreadable(path, error) from error


def _array(file: IO[bytes], path: str) -> np.ndarray:
    start = file.tell()
    version = np.lib.format.read_magic(file)
    first = version == (1, 0)
    formats = np.lib.format
    read = formats.read_array_header_1_0 if first else formats.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        found = pickle_module(path).load(file, encoding='ASCII')
        if type(found) is not np.ndarray or found.dtype != dtype:
            raise Refused(path, 'something else than an array')
        return found.reshape(shape, order='F' if fortran else 'C')
    file.seek(start)
    return formats.read_array(file, allow_pickle=False)


def options(path: str, trusts: bool) -> dict[str, Any]:
    """
    Read a model's options: JSON, or a pickle as ParlAI wrote it until 2019.

    :param trusts: read a pickle as ParlAI does.
    """
    with open(path, 'rb') as file:
        data = file.read()
    try:
        found = json.loads(data.decode('utf-8'))
    except RecursionError as error:
        raise BadModelFile(path, 'it cannot be read: nested too deeply') from error
    except ValueError as error:
        if data.lstrip()[:1] in (b'', b'{', b'['):
            raise _unreadable(path, error) from error
        load = THEIRS.pickle_load if trusts else pickled
        named = io.BytesIO(data)
        named.name = path
        try:
            found = load(named)
        except MemoryError as error:  # a length that no options have
            raise _unreadable(path, error) from error
    if not isinstance(found, dict):
        raise BadModelFile(path, 'it holds no options')
    return dict(found)
