"""
An unpickler that only makes data: it refuses every global that it does not know.
"""

from __future__ import annotations

import os
import pickle
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import IO, Any

import torch
from parlai.core.opt import Opt

from parlai_ext.core.errors import UserError
from parlai_ext.systems.safe.allowed import FILLERS, AllowedCall, allowed_global

UNNAMED = '<in memory>'
DEEPEST = 100  # tuples in tuples: to hash more would overrun the interpreter's stack
# of a tuple, those of the tuples in it included each time that they are there, and of
# all keys together: a tuple doubled sixty times is small, but nobody can hash it
MOST_PARTS = 10_000_000
MOST_BITS = 8_000  # of a whole number; Python itself reads 4,300 digits at most
HASHED = {tuple, frozenset, torch.Size}  # made of parts that are hashed with them
DICTS = {dict, OrderedDict, defaultdict, Counter, Opt}
_InPython: Any = vars(pickle)['_Unpickler']


class BadModelFile(UserError):
    """
    A model file that cannot be read as it is.

    :param path: the file.
    :param why: what is wrong with it.
    """

    def __init__(self, path: str, why: str):
        super().__init__(f'model file {path}: {why}')
        self.path, self.why = path, why

    @property
    def as_option(self) -> str:
        """
        The message as a mistake in a system's options.
        """
        return f'model_file: {self.path}: {self.why}'

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.why)


class Refused(BadModelFile):
    """
    A file that is more than data.

    :param what: the global that it names, or the other way to run code.
    :param hint: what the user may do instead of trusting the file.
    :param trustable: ``--trust-model-code`` would help.
    :param sentence: what is wrong, if it is not that code would run.
    """

    def __init__(
        self,
        path: str,
        what: str,
        hint: str = '',
        trustable: bool = True,
        sentence: str = '',
    ):
        why = f'refused: {sentence or f"it wants to run {what} when read"}'
        trust = ''
        if path != UNNAMED and trustable:
            trust = f'--trust-model-code {path}'
            trust = f'or {trust}' if hint else f'if you trust its author: {trust}'
        hints = ', '.join(filter(None, (hint, trust)))
        super().__init__(path, '; '.join(filter(None, (why, hints))))
        self.what = what
        self.given = (path, what, hint, trustable, sentence)

    def untrustable(self) -> Refused:
        """
        Return the same refusal where no trust would help.
        """
        _, what, _, _, sentence = self.given
        hint = 'weights as safetensors would do'
        return Refused(self.path, what, hint, trustable=False, sentence=sentence)

    @property
    def as_option(self) -> str:
        return f'model_file: {self.why}'

    def __reduce__(self) -> Any:
        return Refused, self.given


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
        # tuples and frozen sets with such in them by id, with their depth and number of
        # parts; held, so that ids stay
        self.nested: dict[int, tuple[Any, int, int]] = {}
        self.n_hashed = 0  # parts of all keys
        super().__init__(file, *args, **kwargs)

    def refusal(self, what: str) -> Refused:
        return Refused(str(self.path), what)

    def find_class(self, module: str, name: str) -> Any:
        value = allowed_global(module, name)
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
        for arg in args:
            self.count_keys(_parts_of_argument(arg))
        made = allowed_call.make(*args)
        self.check_nesting(made)
        return made

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

    def load_obj(self) -> None:
        allowed_call, *args = self.pop_mark()
        self.append(self._call(allowed_call, tuple(args)))

    def load_inst(self) -> None:
        module, name = (self.readline()[:-1].decode('ascii') for _ in range(2))
        args = self.pop_mark()
        self.append(self._call(self.find_class(module, name), tuple(args)))

    def load_build(self) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        fill = FILLERS.get(type(made))
        if fill is None:
            raise self.refusal(f'a change to {_kind(made)}')
        fill(made, state)

    def _persistent(self, pid: Any) -> Any:
        if 'persistent_load' not in vars(self) or not _is_storage_id(pid):
            raise self.refusal('a persistent id that is no tensor')
        return self.persistent_load(pid)

    def load_persid(self) -> None:
        self.append(self._persistent(self.readline()[:-1].decode('ascii')))

    def load_binpersid(self) -> None:
        self.append(self._persistent(self.stack.pop()))

    def check_nesting(self, made: Any) -> None:
        """
        Refuse a tuple or a frozen set, just made, with too many in one another, or with
        too many parts.
        """
        if type(made) not in HASHED:
            return
        inside = [part for part in made if type(part) in HASHED]
        if not inside:
            return
        measures = [self._measures(part) for part in inside]
        depth = 1 + max(depth for depth, _ in measures)
        n_parts = len(made) + sum(n for _, n in measures)
        self.nested[id(made)] = made, depth, n_parts
        if depth > DEEPEST or n_parts > MOST_PARTS:
            raise BadModelFile(str(self.path), 'it cannot be read: nested too deeply')

    def _measures(self, value: Any) -> tuple[int, int]:
        """
        Return how many tuples or frozen sets are in one another in a value, and the
        number of its parts.
        """
        _, depth, n_parts = self.nested.get(id(value), (value, 1, len(value)))
        return depth, n_parts

    def count_keys(self, keys: Iterable[Any]) -> None:
        """
        Refuse keys, before they are hashed, that have too many parts all together.
        """
        for key in keys:
            if type(key) in HASHED:
                self.n_hashed += self._measures(key)[1]
        if self.n_hashed > MOST_PARTS:
            problem = f'its keys have more than {MOST_PARTS:,} parts'
            raise BadModelFile(str(self.path), f'it cannot be read: {problem}')

    def load_frozenset(self) -> None:
        self.count_keys(self.stack)
        super().load_frozenset()
        self.check_nesting(self.stack[-1])

    def load_long4(self) -> None:
        """
        Load a whole number; of a huge one, each hash would take as long as its text.
        """
        super().load_long4()
        if self.stack[-1].bit_length() > MOST_BITS:
            raise BadModelFile(str(self.path), 'it cannot be read: a huge number')

    OVERRIDDEN: dict[bytes, Callable[[Any], None]] = {
        pickle.REDUCE: load_reduce,
        pickle.NEWOBJ: load_reduce,
        pickle.NEWOBJ_EX: load_newobj_ex,
        pickle.OBJ: load_obj,
        pickle.INST: load_inst,
        pickle.BUILD: load_build,
        pickle.PERSID: load_persid,
        pickle.BINPERSID: load_binpersid,
        pickle.FROZENSET: load_frozenset,
        pickle.LONG4: load_long4,
    }


# opcodes that change a container, or make a dict: what it may be, where it is on the
# stack (0: below the mark), and where on the stack its new keys are
CHANGES: dict[bytes, tuple[set[type], int, slice | None]] = {
    pickle.APPEND: ({list}, 2, None),
    pickle.APPENDS: ({list}, 0, None),
    pickle.SETITEM: (DICTS, 3, slice(-2, -1)),
    pickle.SETITEMS: (DICTS, 0, slice(None, None, 2)),
    pickle.ADDITEMS: ({set}, 0, slice(None)),
    pickle.DICT: (set(), 0, slice(None, None, 2)),
}


def _checked_change(code: bytes) -> Callable[[Any], None]:
    """
    Return the step of an opcode of `CHANGES`, with a look at the stack before it.
    """
    kinds, n_from_top, keys = CHANGES[code]

    def load(self: SafeUnpickler) -> None:
        if kinds:
            stack = self.stack if n_from_top else self.metastack[-1]
            target = stack[-max(n_from_top, 1)]
            if type(target) not in kinds:
                raise self.refusal(f'a change to {_kind(target)}')
        if keys:
            self.count_keys(self.stack[keys])
        _InPython.dispatch[code[0]](self)

    return load


def _checked_tuple(code: bytes) -> Callable[[Any], None]:
    """
    Return the step of an opcode that makes a tuple, with a look at it.
    """

    def load(self: SafeUnpickler) -> None:
        _InPython.dispatch[code[0]](self)
        self.check_nesting(self.stack[-1])

    return load


TUPLES = (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3)
SafeUnpickler.dispatch |= {
    code[0]: load
    for code, load in (
        *SafeUnpickler.OVERRIDDEN.items(),
        *((code, _checked_change(code)) for code in CHANGES),
        *((code, _checked_tuple(code)) for code in TUPLES),
    )
}


def _kind(value: Any) -> str:
    """
    Return how a message names a value.
    """
    return value.name if isinstance(value, AllowedCall) else type(value).__name__


def _parts_of_argument(arg: Any) -> Iterator[Any]:
    """
    Yield what a call may hash of an argument: the elements of a set that it makes, or
    the keys of a mapping, which may come in pairs.
    """
    if type(arg) not in (list, tuple, set, frozenset, dict):
        return
    for element in arg:
        if type(element) is list:
            yield from element
        else:
            yield element


def _is_storage_id(pid: Any) -> bool:
    """
    True if a persistent id is one of torch's: a tensor's memory.
    """
    if type(pid) is not tuple or pid[:1] not in (('storage',), (b'storage',)):
        return False
    kinds: list[Any] = [torch.serialization.StorageType, (str, int), (str, bytes), int]
    view = pid[5] if len(pid) == 6 else None
    return (
        len(pid) in (5, 6)
        and (pid[1] is torch.UntypedStorage or isinstance(pid[1], kinds[0]))
        and all(isinstance(p, k) for p, k in zip(pid[2:5], kinds[1:], strict=True))
        and pid[4] >= 0
        and (view is None or _is_view(view))
    )


def _is_view(view: Any) -> bool:
    key, offset, size = view
    sizes = type(offset) is type(size) is int and min(offset, size) >= 0
    return sizes and type(key) in (str, int)


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
