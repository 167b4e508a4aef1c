"""
The allow-list: the globals that a pickle of a model may name.

A pickle gets no function and no class from here. What it may call is wrapped into an
`AllowedCall`, which only the unpickler opens; objects whose attributes it may set are
in `FILLERS`.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import torch
from parlai.core.opt import Opt
from parlai.utils.fp16 import DynamicLossScaler
from parlai.utils.pickle import FakeAPEXClass

PLAIN = {str, bytes, bytearray, int, float, bool, complex, type(None)}
CONTAINERS = {list, tuple, dict, set, frozenset}


@dataclass(frozen=True, eq=False)
class AllowedCall:
    """
    A function that a pickle may call. It is not callable itself, so that only the
    unpickler can call it.
    """

    name: str
    make: Callable[..., Any]


def refuse_hooks(hooks: Any, metadata: Any = None) -> None:
    """
    Refuse a tensor with functions that are called later on.
    """
    if hooks or metadata:
        raise ValueError('a tensor with hooks or metadata')


def is_storage(value: Any) -> bool:
    return isinstance(value, torch.storage.TypedStorage | torch.UntypedStorage)


def check_size(storage: Any, size: Any) -> None:
    """
    Refuse a tensor of more numbers than its memory holds: of one number, at a stride of
    0, whoever copies it would make terabytes.
    """
    if not is_storage(storage):
        raise TypeError('a tensor without storage')
    if not all(type(n) is int for n in size):  # a text times a number is a long text
        raise TypeError('a tensor whose size is no numbers')
    # torch warns of the same method of a TypedStorage
    memory = getattr(storage, '_untyped_storage', storage).nbytes()
    if prod(size) > memory:  # a number takes a byte at least
        raise ValueError('a tensor of more numbers than are stored')


def _tensor(storage: Any, offset: int, size: Any, stride: Any) -> torch.Tensor:
    check_size(storage, size)
    tensor: torch.Tensor = torch._utils._rebuild_tensor(storage, offset, size, stride)
    return tensor


def _tensor_v2(
    storage: Any,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    hooks: Any,
    metadata: Any = None,
) -> torch.Tensor:
    refuse_hooks(hooks, metadata)
    return _tensor(storage, offset, size, stride).requires_grad_(requires_grad)


def _tensor_v3(
    storage: Any,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool,
    hooks: Any,
    dtype: torch.dtype,
    metadata: Any = None,
) -> torch.Tensor:
    refuse_hooks(hooks, metadata)
    check_size(storage, size)
    tensor: torch.Tensor = torch._utils._rebuild_tensor_v3(
        storage, offset, size, stride, requires_grad, OrderedDict(), dtype
    )
    return tensor


def _parameter(
    data: torch.Tensor, requires_grad: bool = True, hooks: Any = None
) -> torch.nn.Parameter:
    refuse_hooks(hooks)
    if type(data) is not torch.Tensor:
        raise TypeError('a parameter without a tensor')
    return torch.nn.Parameter(data, bool(requires_grad))


def _layout(name: str) -> torch.layout:
    if name != 'torch.strided':
        raise ValueError('a tensor of another layout')
    return torch.strided


def _device(kind: str, index: int | None = None) -> torch.device:
    if type(kind) is not str:  # the text of a list may be endless
        raise TypeError('a device without a name')
    return torch.device(kind) if index is None else torch.device(kind, index)


def _encode(text: str, encoding: str = 'utf-8') -> bytes:
    # any other name makes Python import a module of that name
    if encoding not in ('latin1', 'latin-1', 'utf-8', 'ascii'):
        raise ValueError(f'the encoding {encoding!r}')
    return str.encode(text, encoding)


def _with_plain_arguments(kind: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return a builtin that takes plain arguments only: others have methods of their own.
    """

    def make(*args: Any) -> Any:
        if not all(type(arg) in PLAIN | CONTAINERS for arg in args):
            raise TypeError('an argument that is not plain')
        if kind in (bytes, bytearray) and any(type(arg) is int for arg in args):
            raise ValueError('bytes of which only the number is given')
        return kind(*args)

    return make


def _defaultdict(factory: Any = None, *contents: Any) -> Any:
    """
    Return a `defaultdict`; its factory is one of the `FACTORIES`, which name builtins.
    """
    if factory is not None and factory not in FACTORIES:
        raise TypeError('a defaultdict whose factory is no builtin type')
    return defaultdict(factory and FACTORIES[factory], *contents)


def _dtype(text: str, *flags: Any) -> np.dtype[Any]:
    # structured types can hide objects among bytes
    if not re.fullmatch(r'[<>|=]?[?biufcSUO]\d{0,9}', text, re.ASCII):
        raise ValueError(f'an array of type {text}')
    return np.dtype(text, False, True)


def _empty_array(kind: Any, shape: Any, code: Any) -> np.ndarray:
    if kind is not NDARRAY:
        raise TypeError('an array of another class')
    return np.empty((0,), 'b')


def _array_of(
    data: Any, dtype: np.dtype[Any], shape: Any, order: Any = 'C'
) -> np.ndarray:
    if type(data) not in (bytes, bytearray) or dtype.hasobject:
        raise TypeError('an array of something else than numbers')
    return np.frombuffer(bytes(data), dtype).reshape(shape, order=order)


def _scalar(dtype: np.dtype[Any], data: bytes) -> Any:
    if dtype.hasobject or len(data) != dtype.itemsize:
        raise ValueError('a number of the wrong size')
    return np.frombuffer(data, dtype)[0]


def _blank_scaler() -> DynamicLossScaler:
    return DynamicLossScaler.__new__(DynamicLossScaler)


def fill_attributes(made: Any, state: Any) -> None:
    """
    Set the attributes that a pickle gives an object, none of its class's among them.
    """
    if type(state) is not dict or not all(type(key) is str for key in state):
        raise TypeError('attributes without names')
    hidden = [key for key in state if key.startswith('__') or hasattr(type(made), key)]
    if hidden:
        raise ValueError(f'an attribute called {hidden[0]}')
    vars(made).update(state)


def _fill_opt(made: Opt, state: Any) -> None:
    history, deepcopies, data = state
    if (type(history), type(deepcopies), type(data)) != (list, list, dict):
        raise TypeError('options of an unknown form')
    Opt.__setstate__(made, (history, deepcopies, data))


def _fill_dtype(made: np.dtype[Any], state: Any) -> None:
    order, *structure = state[1:5]
    if structure != [None, None, None] or order not in ('<', '>', '=', '|'):
        raise ValueError('an array of a structured type')
    sized = made.kind in 'SU'
    size = (made.itemsize, made.alignment) if sized else (-1, -1)
    made.__setstate__((3, order, None, None, None, *size, made.flags))  # type: ignore[attr-defined]


def _fill_array(made: np.ndarray, state: Any) -> None:
    _, shape, dtype, fortran, data = state
    # an array that is in use must not be given other memory
    if made.shape != (0,) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError('an array of a wrong shape')
    size = prod(shape)
    objects = type(dtype) is np.dtype(object).__class__
    expected = size if objects else size * dtype.itemsize
    if type(data) is not (list if objects else bytes) or len(data) != expected:
        raise ValueError('an array of the wrong size')
    made.__setstate__((1, tuple(shape), dtype, bool(fortran), data))  # type: ignore[arg-type]


NDARRAY = AllowedCall('numpy.ndarray', _empty_array)
FILLERS: dict[type, Callable[[Any, Any], None]] = {
    OrderedDict: fill_attributes,
    Namespace: fill_attributes,
    FakeAPEXClass: fill_attributes,
    DynamicLossScaler: fill_attributes,
    Opt: _fill_opt,
    np.ndarray: _fill_array,
}
FILLERS |= {type(np.dtype(code)): _fill_dtype for code in '?bBhHiIlLqQefdFDSUO'}
CALLS: dict[str, Callable[..., Any]] = {
    'collections.OrderedDict': _with_plain_arguments(OrderedDict),
    'collections.Counter': _with_plain_arguments(Counter),
    'collections.defaultdict': _defaultdict,
    'argparse.Namespace': lambda: Namespace(),
    '_codecs.encode': _encode,
    'torch.Size': _with_plain_arguments(torch.Size),
    'torch.device': _device,
    'torch.serialization._get_layout': _layout,
    'torch._utils._rebuild_tensor': _tensor,
    'torch._utils._rebuild_tensor_v2': _tensor_v2,
    'torch._utils._rebuild_tensor_v3': _tensor_v3,
    'torch._utils._rebuild_parameter': _parameter,
    'torch.nn.parameter.Parameter': _parameter,
    'numpy.dtype': _dtype,
    'parlai.core.opt.Opt': _with_plain_arguments(Opt),
    'parlai.core.utils.Opt': _with_plain_arguments(Opt),  # where older ParlAI had it
    'parlai.utils.misc.Opt': _with_plain_arguments(Opt),
    'parlai.utils.fp16.DynamicLossScaler': _blank_scaler,
}
for _core in ('numpy.core', 'numpy._core'):  # numpy 1 and 2
    CALLS[f'{_core}.multiarray._reconstruct'] = _empty_array
    CALLS[f'{_core}.multiarray.scalar'] = _scalar
    CALLS[f'{_core}.numeric._frombuffer'] = _array_of
for _kind in (set, frozenset, bytearray, bytes, complex, slice, range):
    CALLS[f'builtins.{_kind.__name__}'] = _with_plain_arguments(_kind)
FACTORIES = {
    AllowedCall(f'builtins.{kind.__name__}', _with_plain_arguments(kind)): kind
    for kind in (list, dict, tuple, int, float, str, bool)
}


def _allowed_globals() -> dict[tuple[str, str], Any]:
    """
    Return what a pickle gets for each (module, name) that it may name.
    """
    table: dict[tuple[str, str], Any] = {('numpy', 'ndarray'): NDARRAY}
    calls = [AllowedCall(name, make) for name, make in CALLS.items()]
    for call in (*calls, *FACTORIES):
        module, _, name = call.name.rpartition('.')
        table[module, name] = call
    for name, value in vars(torch).items():
        if isinstance(value, torch.dtype):
            table['torch', name] = value
    for name in set(torch.storage._dtype_to_storage_type_map().values()):
        for module in ('torch', 'torch.cuda'):
            table[module, name] = torch.serialization.StorageType(name)
    for name in ('UntypedStorage', '_UntypedStorage'):
        table['torch', name] = table['torch.storage', name] = torch.UntypedStorage
    return table


ALLOWED = _allowed_globals()
OLD_MODULES = {'__builtin__': 'builtins'}


def allowed_global(module: str, name: str) -> Any:
    """
    Return what a pickle gets for a global; `None` when it may not name it.
    """
    if module.startswith('apex.') and '.' not in name:
        # as ParlAI does where apex is not installed; apex itself is never imported
        return AllowedCall(f'{module}.{name}', lambda: FakeAPEXClass())
    return ALLOWED.get((OLD_MODULES.get(module, module), name))
