"""
What the unpickler has made, in two files that are data only: `values.json` and, with
the memory of tensors and arrays, `memory.safetensors`.

The JSON is a list of steps. Each makes a value, or fills one that an earlier step has
made; ``[3]`` in a step is what step 3 has made, ``{"name": …}`` a name of the
allow-list. So what is shared stays shared: tied weights, and lists in two places. What
is not plain is made by the calls that a pickle may name.
"""

import copyreg
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from parlai_ext.core.json_text import parse_json
from parlai_ext.systems.safe.unpickle import (
    FILLERS,
    AllowedCall,
    allowed_global,
    is_storage,
    untyped,
)

VALUES, MEMORY = 'values.json', 'memory.safetensors'
# as which memory is written: safetensors puts the wider ones first, so that all pieces
# begin where their numbers may
UNITS = (torch.int64, torch.int32, torch.int16, torch.uint8)


class ValueWriter:
    """
    Turns a value into steps, and writes them.
    """

    def __init__(self) -> None:
        self.steps: list[list[Any]] = []
        # the step of each value by its id; the value is held, so that ids stay
        self.places: dict[int, tuple[Any, int]] = {}
        # pieces of memory with their numbers
        self.memory: dict[int, tuple[int, torch.UntypedStorage]] = {}

    def write(self, value: Any, folder: Path) -> None:
        """
        Write the files of a value.
        """
        data = {'value': self._token(value), 'steps': self.steps}
        (folder / VALUES).write_text(json.dumps(data), 'utf-8')
        pieces = {}
        for number, storage in self.memory.values():
            unit = next(u for u in UNITS if storage.nbytes() % u.itemsize == 0)
            pieces[str(number)] = torch.empty(0, dtype=unit).set_(storage)
        safetensors.torch.save_file(pieces, folder / MEMORY)

    def _token(self, value: Any) -> Any:
        """
        Return what stands for a value in a step.
        """
        if value is None or type(value) in (bool, int, float, str):
            return value
        if callable(value) or isinstance(value, torch.dtype | AllowedCall):
            return {'name': _name(value)}
        if id(value) not in self.places:
            self._make(value)
        return [self.places[id(value)][1]]

    def _tokens(self, values: Iterable[Any]) -> list[Any]:
        return [self._token(value) for value in values]

    def _add(self, value: Any, *step: Any) -> None:
        self.places[id(value)] = value, len(self.steps)
        self.steps.append(list(step))

    def _make(self, value: Any) -> None:
        if type(value) is tuple:
            self._add(value, 'tuple', *self._tokens(value))
        elif type(value) is bytes:
            storage = torch.UntypedStorage(0)
            if value:
                data = torch.frombuffer(bytearray(value), dtype=torch.uint8)
                storage = data.untyped_storage()
            self._add(value, 'bytes', self._number_of(storage))
        elif is_storage(value):
            number = self._number_of(untyped(value))
            dtype = getattr(value, 'dtype', torch.uint8)
            self._add(value, 'storage', number, self._token(dtype))
        else:
            self._make_object(value)

    def _make_object(self, value: Any) -> None:
        """
        Make an object as a pickle does.
        """
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = reduce(value) if reduce else value.__reduce_ex__(4)
        function, args, state, elements, pairs = (*reduced, None, None, None)[:5]
        if function is vars(copyreg)['__newobj__']:
            function, *args = args
        self.places[id(reduced)] = reduced, 0  # held, too
        self._add(value, 'make', *self._tokens([function, *args]))
        parts = [part for pair in pairs or () for part in pair]
        for step, more in (
            ('extend', list(elements or ())),
            ('update', parts),
            ('fill', [state] if state else []),
        ):
            if more:
                self.steps.append([step, self._token(value), *self._tokens(more)])

    def _number_of(self, storage: torch.UntypedStorage) -> int:
        """
        Return the number of a piece of memory, which is written once.
        """
        key = storage._cdata  # noqa: SLF001
        return self.memory.setdefault(key, (len(self.memory), storage))[0]


def _name(value: Any) -> str:
    """
    Return the name under which the allow-list has a class or a call.
    """
    if isinstance(value, AllowedCall):
        return value.name
    if isinstance(value, torch.dtype):
        return str(value)
    return f'{value.__module__}.{value.__qualname__}'


STEPS: dict[str, Callable[..., Any]] = {
    'tuple': lambda *parts: parts,
    'make': lambda call, *args: call.make(*args),
    'extend': lambda target, *parts: target.extend(parts),
    'update': lambda target, *parts: target.update(
        zip(parts[::2], parts[1::2], strict=True)
    ),
    'fill': lambda target, state: FILLERS[type(target)](target, state),
}


def read_value(folder: Path, map_location: Any = None) -> Any:
    """
    Return a value from its files; nothing of them is unpickled.

    :param map_location: as of `torch.load`.
    """
    data = parse_json((folder / VALUES).read_bytes(), any_number=True)
    # the file is mapped: what is never looked at is never read
    pieces = safetensors.torch.load_file(folder / MEMORY)
    restore: Any = vars(torch.serialization)['_get_restore_location'](map_location)
    memory = {key: restore(p.untyped_storage(), 'cpu') for key, p in pieces.items()}
    made: list[Any] = []

    def part(token: Any) -> Any:
        if type(token) is dict:
            return allowed_global(*token['name'].rpartition('.')[::2])
        return made[token[0]] if type(token) is list else token

    def some_bytes(number: int) -> bytes:
        return pieces[str(number)].numpy().tobytes()

    def storage(number: int, dtype: torch.dtype) -> torch.TypedStorage:
        typed = torch.storage.TypedStorage
        return typed(wrap_storage=memory[str(number)], dtype=dtype, _internal=True)

    steps = STEPS | {'bytes': some_bytes, 'storage': storage}
    for name, *parts in data['steps']:
        made.append(steps[name](*map(part, parts)))
    return part(data['value'])
