"""
Scorers by name; a class is imported only when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from parlai_ext.core.errors import UserError, nearest

SCORERS = {
    'fed': 'parlai_ext.scoring.fed:Fed',
    'chatmatch': 'parlai_ext.scoring.chatmatch.scorer:ChatMatch',
}


def find_scorer(name: str) -> Any:
    """
    Return the scorer class called ``name``.

    It has ``from_config(config, judge, datapath)``: the protocol file's ``scorer:``
    keys, a function that loads a `Likelihood`, and where data files are kept. Its
    ``judge_file(config)`` is the model that it would load, or `None`.

    :raises UserError: when there is none, with the nearest name.
    """
    if name not in SCORERS:
        raise UserError(f'unknown scorer {name!r}; {nearest(name, SCORERS)}')
    module, _, attribute = SCORERS[name].partition(':')
    return getattr(import_module(module), attribute)
