"""
ParlAI 1.7.2 as the program uses it: with the fixes of its faults, with our agents,
tasks and models known to it, and without its reports.
"""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cache
from io import StringIO

from parlai_ext import mini
from parlai_ext.compat import faults  # noqa: F401  (fixes)
from parlai_ext.compat.after_import import apply as apply

PREFIX = 'ext:'


@cache
def prepare_parlai() -> None:
    """
    Apply our fixes to ParlAI and make it know ``ext:…`` and ``zoo:mini/…``.

    Further calls do nothing.
    """
    import parlai.zoo
    from parlai.core.loader import REGISTERED_REPOS

    REGISTERED_REPOS[PREFIX] = {
        'repo': 'parlai_ext',
        'source': 'parlai_ext: parlai-ext doctor',
    }
    apply()
    parlai.zoo.__path__.append(str(mini.ZOO_HOOK))


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
