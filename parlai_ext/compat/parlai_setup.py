"""
Prepares ParlAI for our agents, tasks, models and fixes; once a process.

The commands of `parlai` are added by `commands/plugin.py`, which starts with this.
"""

import os
from functools import cache, wraps
from typing import Any

PREFIX = 'ext:'


@cache
def prepare_parlai() -> None:
    """
    Apply our fixes to ParlAI and make it know ``ext:…``, ``zoo:mini/…`` and the
    presets of `zoo_configs`.

    Further calls do nothing.
    """
    import parlai.zoo
    from parlai.core.loader import REGISTERED_REPOS
    from parlai.core.opt import Opt

    from parlai_ext import compat, mini, zoo_configs

    REGISTERED_REPOS[PREFIX] = {
        'repo': 'parlai_ext',
        'source': 'parlai_ext: parlai-ext doctor',
    }
    compat.apply()
    parlai.zoo.__path__.append(mini.zoo_path())
    original = Opt.load_init.__func__

    @wraps(original)
    def load_init(cls: Any, optfile: str) -> Any:
        # ParlAI looks for presets (``-o``) in its own packages only (core/opt.py:144)
        ours = zoo_configs.HOME / f'{optfile}.opt'
        if os.path.exists(optfile) or not ours.is_file():
            return original(cls, optfile)
        return cls.load(str(ours))

    Opt.load_init = classmethod(load_init)
