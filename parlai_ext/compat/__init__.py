"""
Fixes of ParlAI 1.7.2, where it fails with current libraries or gives wrong results, and
the one function that applies them and makes our agents, tasks and models known.

Each fix is a function that is given the module that it changes. Its docstring says
where ParlAI goes wrong and what the fix does.
"""

import os
from functools import cache, wraps
from typing import Any

from parlai_ext import mini, zoo_configs
from parlai_ext.compat import agents, libraries, worlds  # noqa: F401  (fixes)
from parlai_ext.compat.after_import import apply as apply

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

    REGISTERED_REPOS[PREFIX] = {
        'repo': 'parlai_ext',
        'source': 'parlai_ext: parlai-ext doctor',
    }
    apply()
    parlai.zoo.__path__.append(str(mini.ZOO_HOOK))
    original = Opt.load_init.__func__

    @wraps(original)
    def load_init(cls: Any, optfile: str) -> Any:
        # ParlAI looks for presets (``-o``) in its own packages only (core/opt.py:144)
        ours = zoo_configs.HOME / f'{optfile}.opt'
        if os.path.exists(optfile) or not ours.is_file():
            return original(cls, optfile)
        return cls.load(str(ours))

    Opt.load_init = classmethod(load_init)
