"""
Protocols, rosters, systems and follow-up sets: data, and `path(name)` to find them.
"""

import os
from pathlib import Path

from parlai_ext.core import nearest

HOME = Path(__file__).parent


def path(kind: str, name: str) -> Path:
    """
    Return the file of the ``kind`` (``protocols``, ``rosters``, …) called ``name``.

    A ``name`` that holds a path separator or ends in ``.yaml`` is a user's own file.

    :raises FileNotFoundError: names what is there.
    """
    own = Path(name)
    found = own if own.suffix in ('.yaml', '.yml') or '/' in name else None
    if found is None:
        found = HOME / kind / f'{name}.yaml'
    if os.path.isfile(found):  # false for what can be no path, too
        return found
    roster = kind == 'protocols' and (HOME / 'rosters' / f'{name}.yaml').is_file()
    hint = f' (there is a roster of that name: --roster {name})' if roster else ''
    raise FileNotFoundError(
        f'no {kind.removesuffix("s")} {name!r:.80}; {nearest(name, names(kind))}{hint}'
    )


def names(kind: str) -> list[str]:
    """
    Return the names of the shipped files of a kind, sorted.
    """
    return sorted(path.stem for path in (HOME / kind).glob('*.yaml'))
