"""
Files as their content: what belongs to an option's path, and the hash of each file.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path


def sha256(path: Path) -> str:
    """
    Return the hash of a file's content, read once a process while it stays the same.
    """
    stat = path.stat()
    return _sha256(str(path), stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=1024)
def _sha256(path: str, mtime: int, size: int) -> str:
    with open(path, 'rb') as file:
        return hashlib.file_digest(file, 'sha256').hexdigest()


def files_at(path: Path, *, beginning: bool = False) -> dict[str, Path]:
    """
    Return the files that a path stands for, by what their names add to it.

    :param beginning: the path may also be how names begin, as an index is given by what
        ``exact.index`` and ``exact.index_meta`` share.
    """
    if path.is_file():
        return {'': path}
    if path.is_dir():
        inside = sorted(p for p in path.rglob('*') if p.is_file())
        return {f'/{p.relative_to(path).as_posix()}': p for p in inside}
    if not beginning or not path.parent.is_dir():
        return {}
    like = sorted(path.parent.glob(f'{escaped(path.name)}.*'))
    return {p.name.removeprefix(path.name): p for p in like if p.is_file()}


def escaped(name: str) -> str:
    """
    Return a file's name as a pattern that fits it alone.
    """
    return ''.join(f'[{c}]' if c in '*?[' else c for c in name)
