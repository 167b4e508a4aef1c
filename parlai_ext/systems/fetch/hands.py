"""
Other functions in the place of ParlAI's downloader, for a while.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

ROOMS = ('parlai', 'parlai_ext', 'parlai_internal', 'projects')


@contextmanager
def replaced(hands: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """
    Put functions in the place of `build_data`'s, also where modules imported them by
    name.

    A module that is imported meanwhile keeps what it got, which therefore knows when
    its time is over.
    """
    from parlai.core import build_data

    over = False

    def hand(
        ours: Callable[..., Any], theirs: Callable[..., Any]
    ) -> Callable[..., Any]:
        @functools.wraps(theirs)
        def either(*args: Any, **kwargs: Any) -> Any:
            return (theirs if over else ours)(*args, **kwargs)

        return either

    places = {path: _place(build_data, path) for path in hands}
    theirs_of = {path: getattr(*place) for path, place in places.items()}
    elsewhere = _names_of(theirs_of.values())
    with ExitStack() as stack:
        for path, ours in hands.items():
            theirs = theirs_of[path]
            either = hand(ours, theirs)
            for place, attribute in (places[path], *elsewhere[inspect.unwrap(theirs)]):
                stack.callback(setattr, place, attribute, theirs)
                setattr(place, attribute, either)
        try:
            yield
        finally:
            over = True


def _place(module: Any, path: str) -> tuple[Any, str]:
    """
    Return whose attribute ``name`` or ``Class.name`` is, and its name.
    """
    owner, _, name = path.rpartition('.')
    return (getattr(module, owner) if owner else module), name


def _names_of(
    functions: Iterable[Callable[..., Any]],
) -> dict[Callable[..., Any], list[tuple[Any, str]]]:
    """
    Return where ParlAI's modules hold each function under a name of their own, be it by
    a hand whose time is over; all in one walk, for there are many modules.
    """
    found: dict[Callable[..., Any], list[tuple[Any, str]]]
    found = {inspect.unwrap(function): [] for function in functions}
    wanted = {function.__name__ for function in found}
    for name, module in list(sys.modules.items()):
        if name.partition('.')[0] not in ROOMS or module is None:
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, FunctionType) and value.__name__ in wanted:
                places = found.get(inspect.unwrap(value))
                if places is not None:
                    places.append((module, key))
    return found
