"""
Models of scorers whose files nobody here vouches for are loaded, and compute, in a
process of their own (`systems/own_process.py`).

A scorer asks one as it asks any: each attribute and each call goes there as a message,
texts, numbers, arrays and a few records, so that batches stay as they are. What the
model tells of a long call, and what it keeps of it, comes back in the midst of it.
"""

import base64
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from pkgutil import resolve_name
from typing import Any

import numpy as np
from tokenizers import AddedToken

from parlai_ext.core import (
    Answer,
    JsonObject,
    Question,
    System,
    UserError,
    read_options,
)
from parlai_ext.engines import Machine
from parlai_ext.models.encoders import MaskedLogprobs, TokenVectors, WordLabels
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems.chat.messages import ChatReply
from parlai_ext.systems.downloads import fetch_system
from parlai_ext.systems.own_process import OwnProcess, Server, answers_of_a_kind
from parlai_ext.systems.players import AgentRaised

SERVER = f'{__name__}:ModelHere'
RECORDS: Mapping[str, Any] = {
    kind.__name__: kind
    for kind in (Question, Answer, TokenVectors, WordLabels, MaskedLogprobs, ChatReply)
}
MISSING = 'missing'  # instead of an attribute: there is none
PART = 'part'  # it is no plain data


class DistantPart:
    """
    A part of a model in another process, such as its tokenizer, or a method.
    """

    def __init__(self, model: 'DistantModel', path: tuple[str, ...]):
        self._model, self._path = model, path

    def __getattr__(self, name: str) -> Any:
        if name.startswith('_'):  # which copies and pickles look for
            raise AttributeError(name)
        path = (*self._path, name)
        told = self._model.ask('look', path)
        if told == MISSING:
            raise AttributeError(f'{self._model.process.who} has no {".".join(path)}')
        if told != PART:
            return told[0]
        part = DistantPart(self._model, path)
        setattr(self, name, part)  # it is asked for once
        return part

    def __call__(self, *args: Any, **options: Any) -> Any:
        keeps = self._model.watch.kept is not None
        return self._model.ask('call', keeps, self._path, args, options)


class DistantModel(DistantPart):
    """
    A model that is loaded in a process of its own.

    :param loader: ``module:function`` that loads a model of this kind.
    :param system: what its name means.
    :ivar watch: is told of finished work, and keeps it.
    :raises UserError: as its loader does.
    """

    def __init__(
        self,
        loader: str,
        kind: str,
        name: str,
        system: System,
        machine: Machine,
    ):
        super().__init__(self, ())
        fetch_system(system)
        who, patience = f'{kind} {name!r}', machine.reply_timeout
        module = loader.partition(':')[0]
        process = OwnProcess(who, SERVER, system.opt, patience, module)
        try:
            process.ask(
                'load', loader, kind, name, [system.name, system.opt], asdict(machine)
            )
        except AgentRaised as error:
            raise UserError(f'{who} {error}') from None
        self.process, self.watch = process, NO_WATCH
        process.reply = self._told

    def ask(self, do: str, *given: Any) -> Any:
        """
        Return what a method of `ModelHere` returns.

        :raises UserError: when the model cannot go on.
        """
        try:
            told = self.process.ask(do, *to_plain(list(given)))
        except AgentRaised as error:
            raise UserError(f'{self.process.who} {error}') from None
        with answers_of_a_kind():
            return from_plain(told)

    def _told(self, asked: Any) -> Any:
        """
        Hear what the model tells of a call, or give what was kept of it.
        """
        do, *given = from_plain(asked)
        if do == 'tell':
            return self.watch.tell(*map(int, given))
        if do not in ('get', 'put'):
            raise ValueError(f'it asks to {do!r:.40}')
        return to_plain(getattr(self.watch.kept, do)(*given))


# --- what crosses: JSON, and marks for what JSON has not ------------------------------


def to_plain(value: Any) -> Any:
    """
    Return a value as JSON data.

    :raises TypeError: for a value that may not cross.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {'float': str(value)}
    if isinstance(value, list):
        return list(map(to_plain, value))
    if isinstance(value, tuple):
        return {'tuple': list(map(to_plain, value))}
    if isinstance(value, Mapping):
        return {'map': [[to_plain(k), to_plain(v)] for k, v in value.items()]}
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        return {'array': [value.dtype.str, list(value.shape), data]}
    if isinstance(value, AddedToken):
        return {'token': [value.content, value.special]}
    kind = type(value).__name__
    if RECORDS.get(kind) is not type(value):
        raise TypeError(f'{kind} is no plain data')
    return {kind: [to_plain(getattr(value, field.name)) for field in fields(value)]}


def from_plain(data: Any) -> Any:
    """
    Return the value of JSON data.

    :raises Exception: for other data.
    """
    if isinstance(data, list):
        return list(map(from_plain, data))
    if not isinstance(data, dict):
        return data
    [(kind, parts)] = data.items()
    if kind in RECORDS:
        return RECORDS[kind](*map(from_plain, parts))
    return MAKERS[kind](parts)


def _array(parts: Any) -> np.ndarray:
    dtype, shape, text = parts
    return np.frombuffer(base64.b64decode(text), np.dtype(dtype)).reshape(shape).copy()


MAKERS: dict[str, Callable[[Any], Any]] = {
    'float': float,
    'tuple': lambda parts: tuple(map(from_plain, parts)),
    'map': lambda parts: {from_plain(key): from_plain(value) for key, value in parts},
    'array': _array,
    'token': lambda parts: AddedToken(parts[0], special=parts[1]),
}


# --- in the other process -------------------------------------------------------------


class ModelHere(Server):
    """
    The model of this process.
    """

    def load(
        self,
        loader: str,
        kind: str,
        name: str,
        system: tuple[str, JsonObject],
        machine: JsonObject,
    ) -> None:
        """
        Load a model.
        """
        load = resolve_name(loader)
        self.model = load(kind, name, System(*system), read_options(Machine, machine))

    def look(self, path: Any) -> Any:
        """
        Return an attribute that is plain data, or whether there is one.
        """
        try:
            return to_plain([self._part(from_plain(path))])
        except AttributeError:
            return MISSING
        except TypeError:
            return PART

    def call(self, keeps: bool, path: Any, args: Any, options: Any) -> Any:
        """
        Return what a method returns.
        """
        self.model.watch = Watch(
            lambda n, of: self.ask_watch('tell', n, of), self if keeps else None
        )
        method = self._part(from_plain(path))
        return to_plain(method(*from_plain(args), **from_plain(options)))

    def get(self, key: str) -> Any:
        """
        Return the results of a batch that the user's process has kept.
        """
        return self.ask_watch('get', key)

    def put(self, key: str, results: Any) -> None:
        """
        Have the results of a batch kept.
        """
        self.ask_watch('put', key, results)

    def ask_watch(self, do: str, *given: Any) -> Any:
        """
        Have the watch of the user's process do something.
        """
        return from_plain(self.ask_back({'asks': to_plain([do, *given])}))

    def _part(self, path: Iterable[str]) -> Any:
        part = self.model
        for name in path:
            part = getattr(part, name)
        return part
