"""
Small changes of JSON data: each key left out or renamed, each value of another kind.
"""

import copy

OTHERS = (None, True, -1, 7, 0.5, 10**30, '', 'x', '../x', [], [None], ['x'])
OTHERS += ({}, {'x': None}, {'x': {'x': 'x'}})


DEEP = 'x'
for _ in range(30):
    DEEP = [{'x': DEEP}]
# more of it, for tests that have the time: huge, deep, negative, and texts that are
# paths, numbers, code and control characters
MORE_OTHERS = (*OTHERS, False, 0, -(10**30), 2**63, 1e308, -1e308, '0', '-1', 'nan')
MORE_OTHERS += ('\x00', '\x1b[2J', '\ud83d', 'x' * 100_000, '..', '/', 'os:system')
MORE_OTHERS += ([[]], [{}], [0], [-1], ['x', 'x'], [['x']] * 1000, DEEP)
MORE_OTHERS += ({'': None}, {'x': -1}, {'x': []}, {'x': DEEP}, {'..': {'x': 1}})


def mutations(data, others=OTHERS):
    """
    Yield each change in words, with the changed copy of the data. Of a list, its first
    item is changed, and the list is cut to it, doubled and reversed.

    :param others: the values that take the place of each.
    """
    for place in _places(data):
        *above, key = place
        shown = '.'.join(map(str, place))
        value = _at(data, place)
        for other in others:
            if (type(other), other) != (type(value), value):
                yield f'{shown} = {other!r:.40}', _changed(data, place, other)
        if isinstance(value, list) and value:
            yield f'{shown} doubled', _changed(data, place, value * 2)
            yield f'{shown} cut', _changed(data, place, value[:1])
            yield f'{shown} reversed', _changed(data, place, value[::-1])
        if isinstance(key, str):
            rest = dict(_at(data, above))
            del rest[key]
            yield f'{shown} left out', _changed(data, above, rest)
            yield f'{shown} renamed', _changed(data, above, {**rest, f'{key}x': value})


def _places(data):
    items = []
    if isinstance(data, dict):
        items = list(data.items())
    elif isinstance(data, list) and data:
        items = [(0, data[0])]
    for key, value in items:
        yield [key]
        yield from ([key, *below] for below in _places(value))


def _at(data, place):
    for key in place:
        data = data[key]
    return data


def _changed(data, place, value):
    """
    Return the data with another value in one place; all else is shared.
    """
    if not place:
        return value
    key, *below = place
    changed = copy.copy(data)
    changed[key] = _changed(data[key], below, value)
    return changed
