"""
`ext:remote`: systems that are reached over HTTP. Such a system is the name that its
model gives itself; where it gives none, its address.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parlai_ext.core.nouns import System
from parlai_ext.core.options import options_of
from parlai_ext.systems.chat.degradation import other_contexts_hash
from parlai_ext.systems.family import PRESENT, Family, Options
from parlai_ext.systems.remote.endpoint import UNTOLD, Endpoint
from parlai_ext.systems.remote.settings import PREFIX, Settings


class Remote(Family):
    """
    Chat endpoints and plain POST services.
    """

    agents = ('ext:remote',)
    place_options = tuple(
        option.dest(PREFIX)
        for option in options_of(Settings).values()
        if not option.info.signed
    )

    def locate_weights(self, system: System, datapath: str | None) -> tuple[str, str]:
        return PRESENT, f'{Settings.from_options(system.opt).endpoint} (not contacted)'

    def samples(self, opt: Options) -> bool:
        """
        True unless the temperature is set to 0: an endpoint that is not told decides.
        """
        temperature = opt.get('remote_temperature')
        return temperature is None or float(temperature) != 0

    def pin(self, opt: Options) -> dict[str, Any]:
        """
        Return the options with the model's dated name among them, asked for unless
        given: the agent then refuses answers of any other model; and with ``$NAME`` in
        place of a key in the URL, since a run keeps the options.
        """
        pinned = {**opt, 'remote_url': Settings.from_options(opt).url}
        if opt.get('remote_dated_model') is None:
            pinned['remote_dated_model'] = dated_name(opt) or UNTOLD
        return pinned

    def contents(
        self, system: System, opt: Options, datapath: str | None
    ) -> dict[str, str]:
        settings = Settings.from_options(system.opt)
        name = settings.dated_model or dated_name(system.opt) or UNTOLD
        if name == UNTOLD:
            what = {'remote_url': settings.endpoint}
        else:
            what = {'remote_model': name}
        return what | other_contexts_hash(opt)


def dated_name(opt: Options) -> str | None:
    """
    Ask a model for its name (``gpt-4o-2024-08-06``); `None` when it gives none.

    :raises UserError: when it cannot be asked.
    """
    settings = replace(
        Settings.from_options(opt), dated_model=None, cache=None, max_cost=None
    )
    name = Endpoint(settings).dated_name()
    return None if name == UNTOLD else name
