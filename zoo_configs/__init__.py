"""
Protocols, rosters, systems and follow-up sets: data, and `path(name)` to find them.
"""

import os
from pathlib import Path

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
    known = ', '.join(sorted(p.stem for p in (HOME / kind).glob('*.yaml')))
    roster = kind == 'protocols' and (HOME / 'rosters' / f'{name}.yaml').is_file()
    hint = f' (there is a roster of that name: --roster {name})' if roster else ''
    raise FileNotFoundError(
        f'no {kind[:-1]} {name!r:.80}; shipped: {known or "none"}{hint}'
    )
