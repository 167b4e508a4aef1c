"""
An unpickler that only makes data: it refuses every global that it does not know.

A pickle gets no function and no class from the allow-list. What it may call is wrapped
into an `AllowedCall`, which only the unpickler opens; objects whose attributes it may
set are in `FILLERS`.
"""

import os
import pickle
import re
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from math import prod
from types import ModuleType
from typing import IO, Any

import numpy as np
import torch
from parlai.core.opt import Opt
from parlai.utils.fp16 import DynamicLossScaler
from parlai.utils.pickle import FakeAPEXClass

from parlai_ext.core import UserError, frozen

PLAIN = {str, bytes, bytearray, int, float, bool, complex, type(None)}
CONTAINERS = {list, tuple, dict, set, frozenset}


@frozen(eq=False)
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


def untyped(storage: Any) -> Any:
    """
    Return the memory of a storage; torch warns of the same method of a `TypedStorage`.
    """
    return getattr(storage, '_untyped_storage', storage)


def _tensor_v2(
    storage: Any,
    offset: int,
    size: Any,
    stride: Any,
    requires_grad: bool = False,
    hooks: Any = None,
    metadata: Any = None,
) -> torch.Tensor:
    refuse_hooks(hooks, metadata)
    if not isinstance(storage, torch.storage.TypedStorage | torch.UntypedStorage):
        raise TypeError('a tensor without storage')
    # of one number, at a stride of 0, whoever copies it would make terabytes
    if prod(size) > untyped(storage).nbytes():  # a number takes a byte at least
        raise ValueError('a tensor of more numbers than are stored')
    tensor: torch.Tensor = torch._utils._rebuild_tensor(storage, offset, size, stride)
    return tensor.requires_grad_(requires_grad)


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
    typed = torch.storage.TypedStorage(
        wrap_storage=untyped(storage), dtype=dtype, _internal=True
    )
    return _tensor_v2(typed, offset, size, stride, requires_grad, hooks, metadata)


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
    """
    Stand in for numpy's ``_frombuffer``, by which pickles of protocol 5 hold arrays.
    """
    if type(data) not in (bytes, bytearray) or dtype.hasobject:
        raise TypeError('an array of something else than numbers')
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order=order)


def _scalar(dtype: np.dtype[Any], data: bytes) -> Any:
    if dtype.hasobject or len(data) != dtype.itemsize:
        raise ValueError('a number of the wrong size')
    return np.frombuffer(data, dtype)[0]


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
    Opt: Opt.__setstate__,
    np.ndarray: _fill_array,
}
FILLERS |= {type(np.dtype(code)): _fill_dtype for code in '?bBhHiIlLqQefdFDSUO'}
CALLS: dict[str, Callable[..., Any]] = {
    'collections.OrderedDict': _with_plain_arguments(OrderedDict),
    'collections.Counter': _with_plain_arguments(Counter),
    'collections.defaultdict': _defaultdict,
    'argparse.Namespace': lambda: Namespace(),
    'keras.src.legacy.preprocessing.text.Tokenizer': lambda: Namespace(),
    '_codecs.encode': _encode,
    'torch.Size': _with_plain_arguments(torch.Size),
    'torch.device': torch.device,
    'torch.serialization._get_layout': _layout,
    'torch._utils._rebuild_tensor': _tensor_v2,
    'torch._utils._rebuild_tensor_v2': _tensor_v2,
    'torch._utils._rebuild_tensor_v3': _tensor_v3,
    'torch._utils._rebuild_parameter': _parameter,
    'torch.nn.parameter.Parameter': _parameter,
    'numpy.dtype': _dtype,
    'parlai.utils.pickle.FakeAPEXClass': FakeAPEXClass,
    'parlai.core.opt.Opt': _with_plain_arguments(Opt),
    'parlai.core.utils.Opt': _with_plain_arguments(Opt),  # where older ParlAI had it
    'parlai.utils.misc.Opt': _with_plain_arguments(Opt),
    'parlai.utils.fp16.DynamicLossScaler': DynamicLossScaler,
}
for _core in ('numpy.core', 'numpy._core'):  # numpy 1 and 2
    CALLS[f'{_core}.multiarray._reconstruct'] = _empty_array
    CALLS[f'{_core}.multiarray.scalar'] = _scalar
    CALLS[f'{_core}.numeric._frombuffer'] = _array_of
for _type in (set, frozenset, bytearray, bytes, complex, slice, range):
    CALLS[f'builtins.{_type.__name__}'] = _with_plain_arguments(_type)
FACTORIES = {
    AllowedCall(f'builtins.{kind.__name__}', _with_plain_arguments(kind)): kind
    for kind in (list, dict, tuple, int, float, str, bool)
}


# what a pickle gets for each (module, name) that it may name
ALLOWED: dict[tuple[str, str], Any] = {('numpy', 'ndarray'): NDARRAY}
for _call in (*FACTORIES, *map(AllowedCall, CALLS, CALLS.values())):
    _module, _, _name = _call.name.rpartition('.')
    ALLOWED[_module, _name] = _call
for _name, _value in vars(torch).items():
    if isinstance(_value, torch.dtype):
        ALLOWED['torch', _name] = _value
for _name in set(torch.storage._dtype_to_storage_type_map().values()):
    for _module in ('torch', 'torch.cuda'):
        ALLOWED[_module, _name] = torch.serialization.StorageType(_name)
for _name in ('UntypedStorage', '_UntypedStorage'):
    ALLOWED['torch', _name] = ALLOWED['torch.storage', _name] = torch.UntypedStorage
UNNAMED = '<in memory>'
DICTS = {dict, OrderedDict, defaultdict, Counter, Opt}
_InPython: Any = vars(pickle)['_Unpickler']


class BadModelFile(UserError):
    """
    A model file that cannot be read as it is.

    :param path: the file.
    :param why: what is wrong with it.
    """

    def __init__(self, path: str, why: str):
        super().__init__(f'model_file: {path}: {why}')
        self.path, self.why = path, why
        self.given: tuple[Any, ...] = (path, why)

    def __reduce__(self) -> Any:
        return type(self), self.given


class Refused(BadModelFile):
    """
    A file that is more than data.

    :param what: what is wrong.
    :param hint: what the user may do instead of trusting the file.
    :param trustable: ``--trust-model-code`` would help.
    """

    def __init__(self, path: str, what: str, hint: str = '', trustable: bool = True):
        trust = ''
        if path != UNNAMED and trustable:
            trust = f'--trust-model-code {path}'
            trust = f'or {trust}' if hint else f'if you trust its author: {trust}'
        hints = ', '.join(filter(None, (hint, trust)))
        super().__init__(path, '; '.join(filter(None, (f'refused: {what}', hints))))
        self.given = (path, what, hint, trustable)


def path_of(file: Any) -> str:
    """
    Return the path of a file: of an open one, that which it was opened from.
    """
    if isinstance(file, str | os.PathLike):
        return str(os.fspath(file))
    name = getattr(file, 'name', None)
    return name if isinstance(name, str) else UNNAMED


class SafeUnpickler(_InPython):
    """
    Reads tensors, plain data and ParlAI's options; raises `Refused` on all else.

    It is the unpickler in Python, as ParlAI's own: every step that could call, import
    or change something is overridden.
    """

    path: str | None = None
    dispatch = dict(_InPython.dispatch)

    def __init__(self, file: IO[bytes], *args: Any, **kwargs: Any):
        self.path = self.path or path_of(file)
        super().__init__(file, *args, **kwargs)

    def refusal(self, what: str) -> Refused:
        return Refused(str(self.path), f'it wants to run {what} when read')

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith('apex.') and '.' not in name:
            # as ParlAI does where apex is not installed; apex itself is never imported
            return AllowedCall(f'{module}.{name}', lambda: FakeAPEXClass())
        of_python_3 = 'builtins' if module == '__builtin__' else module
        value = ALLOWED.get((of_python_3, name))
        if value is None:
            raise self.refusal(f'{module}.{name}')
        return value

    def get_extension(self, code: int) -> Any:
        raise self.refusal(f'the extension of code {code} (copyreg)')

    def _call(self, allowed_call: Any, args: Any) -> Any:
        if type(allowed_call) is not AllowedCall or type(args) is not tuple:
            raise self.refusal(
                f'something that is no type of data ({_kind(allowed_call)})'
            )
        return allowed_call.make(*args)

    def load_reduce(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self._call(self.stack[-1], args)

    def load_newobj_ex(self) -> None:
        """
        Make an object from a class and its arguments, none of which may be named.
        """
        if self.stack.pop():
            raise self.refusal('a class with named arguments')
        self.load_reduce()

    def _instantiate(self, allowed_call: Any, args: Any) -> None:
        self.append(self._call(allowed_call, tuple(args)))

    def load_build(self) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        fill = FILLERS.get(type(made))
        if fill is None:
            raise self.refusal(f'a change to {_kind(made)}')
        fill(made, state)

    def load_persid(self) -> None:
        raise self.refusal('a persistent id that is no tensor')

    def load_binpersid(self) -> None:
        pid = self.stack.pop()
        # one of torch's is a tensor's memory: ('storage', its type, …)
        is_pair = type(pid) is tuple and len(pid) > 1
        kind = pid[1] if is_pair and pid[0] in ('storage', b'storage') else None
        is_type = isinstance(kind, torch.serialization.StorageType)
        if 'persistent_load' not in vars(self) or not (
            is_type or kind is torch.UntypedStorage
        ):
            self.load_persid()
        self.append(self.persistent_load(pid))

    dispatch |= {
        pickle.REDUCE[0]: load_reduce,
        pickle.NEWOBJ[0]: load_reduce,
        pickle.NEWOBJ_EX[0]: load_newobj_ex,
        pickle.BUILD[0]: load_build,
        pickle.PERSID[0]: load_persid,
        pickle.BINPERSID[0]: load_binpersid,
    }


# opcodes that change a container: what it may be, and where it is on the stack (0:
# below the mark). An object of another class may have an attribute `append`, which a
# pickle has set
CHANGES: dict[bytes, tuple[set[type], int]] = {
    pickle.APPEND: ({list}, 2),
    pickle.APPENDS: ({list}, 0),
    pickle.SETITEM: (DICTS, 3),
    pickle.SETITEMS: (DICTS, 0),
    pickle.ADDITEMS: ({set}, 0),
}


def _checked_change(code: bytes) -> Callable[[Any], None]:
    """
    Return the step of an opcode of `CHANGES`, with a look at the stack before it.
    """
    kinds, n_from_top = CHANGES[code]

    def load(self: SafeUnpickler) -> None:
        stack = self.stack if n_from_top else self.metastack[-1]
        target = stack[-max(n_from_top, 1)]
        if type(target) not in kinds:
            raise self.refusal(f'a change to {_kind(target)}')
        _InPython.dispatch[code[0]](self)

    return load


SafeUnpickler.dispatch |= {code[0]: _checked_change(code) for code in CHANGES}


def _kind(value: Any) -> str:
    """
    Return how a message names a value.
    """
    return value.name if isinstance(value, AllowedCall) else type(value).__name__


def pickle_module(path: str) -> ModuleType:
    """
    Return what `torch.load` takes as ``pickle_module``, for the file ``path``.
    """
    module = ModuleType('parlai_ext_safe_pickle')

    class Unpickler(SafeUnpickler):
        pass

    Unpickler.path = path

    def load(file: IO[bytes], **kwargs: Any) -> Any:
        return Unpickler(file, **kwargs).load()

    vars(module).update(Unpickler=Unpickler, load=load)
    return module
