"""
The decorator of nouns: a dataclass whose fields do not change.
"""

import dataclasses
from typing import Any, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: Any = None, **how: bool) -> Any:
    """
    Make a class a frozen dataclass, with what else `how` asks of dataclasses.
    """
    return dataclasses.dataclass(cls, frozen=True, **how)
