"""
Small changes of JSON data: each key left out or renamed, each value of another kind.
"""

import copy
from collections.abc import Iterator
from typing import Any

OTHERS = (None, True, -1, 7, 0.5, 10**30, '', 'x', '../x', [], [None], ['x'])
OTHERS += ({}, {'x': None}, {'x': {'x': 'x'}})


def mutations(data: Any) -> Iterator[tuple[str, Any]]:
    """
    Yield each change in words, with the changed copy of the data. Of a list, its first
    item is changed, and the list is cut to it, doubled and reversed.
    """
    for place in _places(data):
        *above, key = place
        shown = '.'.join(map(str, place))
        value = _at(data, place)
        for other in OTHERS:
            if (type(other), other) != (type(value), value):
                yield f'{shown} = {other!r:.40}', _changed(data, above, key, other)
        if isinstance(value, list) and value:
            yield f'{shown} doubled', _changed(data, above, key, value * 2)
            yield f'{shown} cut', _changed(data, above, key, value[:1])
            yield f'{shown} reversed', _changed(data, above, key, value[::-1])
        if isinstance(key, str):
            yield f'{shown} left out', _renamed(data, above, key, None)
            yield f'{shown} renamed', _renamed(data, above, key, f'{key}x')


def _places(data: Any) -> Iterator[list[Any]]:
    items: list[tuple[Any, Any]] = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list) and data:
        items = [(0, data[0])]
    for key, value in items:
        yield [key]
        yield from ([key, *below] for below in _places(value))


def _at(data: Any, place: list[Any]) -> Any:
    for key in place:
        data = data[key]
    return data


def _changed(data: Any, above: list[Any], key: Any, value: Any) -> Any:
    """
    Return the data with another value in one place; all else is shared.
    """
    if above:
        value = _changed(data[above[0]], above[1:], key, value)
        key = above[0]
    changed = copy.copy(data)
    changed[key] = value
    return changed


def _renamed(data: Any, above: list[Any], key: str, name: str | None) -> Any:
    """
    Return the data with another name for one key; `None`: without it.
    """
    there = dict(_at(data, above))
    value = there.pop(key)
    if name is not None:
        there[name] = value
    return _changed(data, above[:-1], above[-1], there) if above else there
