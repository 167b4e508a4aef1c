"""
Other functions in the place of ParlAI's downloader, for a while.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any


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

    with ExitStack() as stack:
        for path, ours in hands.items():
            owner, _, name = ('.' + path).rpartition('.')
            where = getattr(build_data, owner[1:]) if owner[1:] else build_data
            theirs = getattr(where, name)
            either = hand(ours, theirs)
            places = [(where, name), *_names_of(theirs)]
            for place, attribute in places:
                stack.callback(setattr, place, attribute, theirs)
                setattr(place, attribute, either)
        try:
            yield
        finally:
            over = True


def _names_of(function: Callable[..., Any]) -> list[tuple[Any, str]]:
    """
    Return where ParlAI's modules hold a function under a name of their own, be it by a
    hand whose time is over.
    """
    rooms = ('parlai', 'parlai_ext', 'parlai_internal', 'projects')
    original = inspect.unwrap(function)
    found = []
    for name, module in list(sys.modules.items()):
        if name.partition('.')[0] in rooms and module is not None:
            found += [
                (module, key)
                for key, value in list(vars(module).items())
                if isinstance(value, FunctionType)
                and value.__name__ == original.__name__
                and inspect.unwrap(value) is original
            ]
    return found
