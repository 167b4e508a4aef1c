"""
ParlAI 1.7.2 as the program uses it: with the fixes of its faults, with our agents,
tasks and models known to it, and without its reports.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache, wraps
from io import StringIO
from typing import Any

from parlai_ext import mini, zoo_configs
from parlai_ext.compat import faults  # noqa: F401  (fixes)
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


@contextmanager
def quiet_parlai() -> Iterator[None]:
    """
    Silence ParlAI's reports of options that it overrides and of what it builds.
    """
    from parlai.utils import logging

    handler = logging.logger.streamHandler
    level = handler.level
    handler.setLevel(logging.ERROR)
    try:
        yield
    finally:
        handler.setLevel(level)


@contextmanager
def silent_parlai() -> Iterator[None]:
    """
    Keep ParlAI's own builders, too, from printing where a command prints its result.
    """
    with quiet_parlai(), redirect_stdout(StringIO()):
        yield
