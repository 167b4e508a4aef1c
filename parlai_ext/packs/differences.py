"""
Where two values of JSON data differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any

CLOSE = 1e-9  # numbers may differ by so much of themselves, for other libraries' sums


def json_differences(
    says: Any, gives: Any, where: str = '', tolerance: float = CLOSE
) -> Iterator[tuple[str, Any, Any]]:
    """
    Yield each place at which two values of JSON data differ, with both values there.
    A place in a list of standings is named by the system. Numbers may differ by 1e-9
    of themselves, or by the tolerance.
    """
    if isinstance(says, Mapping) and isinstance(gives, Mapping):
        for key in sorted({*says, *gives}):
            inner = f'{where}.{key}' if where else key
            pair = says.get(key, 'nothing'), gives.get(key, 'nothing')
            yield from json_differences(*pair, inner, tolerance)
    elif isinstance(says, list) and isinstance(gives, list):
        for i, (a, b) in enumerate(zip(says, gives, strict=False)):
            name = a.get('system', i) if isinstance(a, Mapping) else i
            yield from json_differences(a, b, f'{where}[{name}]', tolerance)
        if len(says) != len(gives):
            yield f'length of {where}', len(says), len(gives)
    elif says != gives:
        numbers = {type(says), type(gives)} <= {int, float}
        if not (numbers and isclose(says, gives, rel_tol=CLOSE, abs_tol=tolerance)):
            yield where, says, gives
