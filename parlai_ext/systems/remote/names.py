"""
What a remote system is: where it is, and who it says it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.systems.remote.endpoint import UNTOLD, Endpoint
from parlai_ext.systems.remote.settings import Settings

AGENT = 'ext:remote'
# options that say where, how fast and how dear, not what is said
PLACES = (
    'remote_url',
    'remote_dated_model',
    'remote_key_env',
    'remote_insecure',
    'remote_concurrency',
    'remote_timeout',
    'remote_retries',
    'remote_rate',
    'remote_token_rate',
    'remote_cache',
    'remote_price_prompt',
    'remote_price_completion',
    'max_cost',
)


def is_remote(opt: Mapping[str, Any]) -> bool:
    """
    Tell whether these options build a remote system.
    """
    return opt.get('model') == AGENT


def samples_remotely(opt: Mapping[str, Any]) -> bool:
    """
    Tell whether replies are drawn at random, as far as options tell: an endpoint whose
    temperature is not said to be 0 decides for itself.
    """
    temperature = opt.get('remote_temperature')
    return is_remote(opt) and (temperature is None or float(temperature) != 0)


def dated_name(opt: Mapping[str, Any]) -> str | None:
    """
    Ask a system who it is (``gpt-4o-2024-08-06``); `None` when it does not tell.

    :raises UserError: when it cannot be asked.
    """
    settings = replace(Settings.of(opt), dated_model=None, cache=None, max_cost=None)
    name = Endpoint(settings).dated_name()
    return None if name == UNTOLD else name


def pinned(opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return a system's options with its dated name among them, asked for unless given:
    the agent then refuses answers of any other model.
    """
    if opt.get('remote_dated_model') is not None:
        return dict(opt)
    return {**opt, 'remote_dated_model': dated_name(opt) or UNTOLD}


def identity_contents(opt: Mapping[str, Any]) -> dict[str, str]:
    """
    Return what belongs to a system's identity beside the options that are no `PLACES`:
    its dated name, asked for unless it is pinned; where it tells none, its address.
    """
    settings = Settings.of(opt)
    name = settings.dated_model or dated_name(opt) or UNTOLD
    if name == UNTOLD:
        return {'remote_url': settings.endpoint}
    return {'remote_model': name}


def resolve_remote(opt: Mapping[str, Any]) -> tuple[str, str, str | None]:
    """
    Return whether a system can be asked (``present`` or ``missing``), where it is, and
    what is missing; the network is not touched.
    """
    try:
        settings = Settings.of(opt)
    except UserError as error:
        return 'missing', '', str(error)
    return 'present', f'{settings.endpoint} (not contacted)', None
