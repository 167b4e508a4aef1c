"""
Prepares ParlAI for our agents, tasks, models and fixes; once a process.

The commands of `parlai` are added by `commands/plugin.py`, which starts with this.
"""

from __future__ import annotations

from functools import cache

PREFIX = 'ext:'


@cache
def prepare_parlai() -> None:
    """
    Apply our fixes to ParlAI and make it know ``ext:…`` and ``zoo:mini/…``.

    Further calls do nothing.
    """
    import parlai.zoo
    from parlai.core.loader import REGISTERED_REPOS

    from parlai_ext import compat, mini

    REGISTERED_REPOS[PREFIX] = {
        'repo': 'parlai_ext',
        'source': 'parlai_ext: python -m parlai_ext doctor',
    }
    compat.apply()
    parlai.zoo.__path__.append(mini.zoo_path())
