"""
Where the files that a model's own options name may lie.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parlai_ext.systems.safe.unpickle import Refused


class Elsewhere(Refused):
    """
    Options that name a file which is no part of the model.
    """

    def __init__(self, path: str, key: str, value: str):
        super().__init__(path, f'with {key}')
        self.key, self.value = key, value
        shown = value if value.isprintable() else repr(value)
        self.why = (
            f'refused: its own {key} is {shown[:200]}, which is not beside the model; '
            f'if you mean it: `{key}: {shown[:200]}` in the roster entry, '
            f'or --trust-model-code {path}'
        )
        self.args = (f'model file {path}: {self.why}',)

    def __reduce__(self) -> Any:
        return Elsewhere, (self.path, self.key, self.value)


def elsewhere(value: Any, folders: Iterable[Path]) -> bool:
    """
    Tell whether something names a file that is there, but in none of the folders.

    Links are followed. What is hidden in a folder is not of a model: the folder may be
    somebody's home.
    """
    if not isinstance(value, str | bytes) or not value:
        return False
    try:
        real = Path(os.path.realpath(os.fsdecode(value)))
        if not any(p.exists() for p in (real, Path(f'{real}.opt'))):
            return False
    except (OSError, ValueError):  # too long, or a NUL: nothing opens that
        return False
    return not any(_is_inside(real, Path(os.path.realpath(f))) for f in folders)


def _is_inside(path: Path, folder: Path) -> bool:
    if not path.is_relative_to(folder):
        return False
    return not any(part.startswith('.') for part in path.relative_to(folder).parts)
