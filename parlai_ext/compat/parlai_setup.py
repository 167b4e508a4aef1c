"""
Prepares ParlAI for our agents, tasks, models and fixes; once a process.

The commands of `parlai` are added by `commands/plugin.py`, which starts with this.
"""

from __future__ import annotations

import os
from functools import cache, wraps
from typing import Any

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
    find_our_presets()


def find_our_presets() -> None:
    """
    Let ``-o moderation/NAME`` find `zoo_configs/moderation/NAME.opt`.

    ParlAI looks for presets in its own packages only (core/opt.py:144).
    """
    from parlai.core.opt import Opt

    from parlai_ext import zoo_configs

    original = Opt.load_init.__func__

    @wraps(original)
    def load_init(cls: Any, optfile: str) -> Any:
        ours = zoo_configs.HOME / f'{optfile}.opt'
        if os.path.exists(optfile) or not ours.is_file():
            return original(cls, optfile)
        return cls.load(str(ours))

    Opt.load_init = classmethod(load_init)
