"""
Where two values of JSON data differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

CLOSE = 1e-9  # numbers may differ by so much of themselves, for other libraries' sums


def json_differences(
    says: Any, gives: Any, where: str = ''
) -> Iterator[tuple[str, Any, Any]]:
    """
    Yield each place at which two values of JSON data differ, with both values there.
    A place in a list of standings is named by the system. Numbers may differ by 1e-9.
    """
    if isinstance(says, Mapping) and isinstance(gives, Mapping):
        for key in sorted({*says, *gives}):
            inner = f'{where}.{key}' if where else key
            yield from json_differences(
                says.get(key, 'nothing'), gives.get(key, 'nothing'), inner
            )
    elif isinstance(says, list) and isinstance(gives, list) and len(says) == len(gives):
        for i, (a, b) in enumerate(zip(says, gives, strict=True)):
            name = a.get('system', i) if isinstance(a, Mapping) else i
            yield from json_differences(a, b, f'{where}[{name}]')
    elif says != gives:
        numbers = {type(says), type(gives)} <= {int, float}
        if not (numbers and math.isclose(says, gives, rel_tol=CLOSE, abs_tol=CLOSE)):
            yield where, says, gives
