"""
The decorator of nouns: a dataclass whose fields do not change.
"""

import dataclasses
from typing import TypeVar, dataclass_transform

T = TypeVar('T')


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[T]) -> type[T]:
    """
    Make a class a frozen dataclass.
    """
    return dataclasses.dataclass(frozen=True)(cls)
