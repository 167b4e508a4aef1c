"""
What may be chosen in FED, and what its two variants choose.

*bipartite* is FED as bipartite-play uses it: complaints only, the mean log-probability
of each, summed. *original* is the program of Mehri and Eskenazi (2020): praise and
complaints, the loss of the whole string (context and follow-up), the mean over each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parlai_ext.core.errors import UserError, nearest

CHOICES = {
    'variant': ('bipartite', 'original'),
    'polarity': ('negative', 'positive', 'both'),
    'token_reduction': ('mean', 'sum'),
    'followup_reduction': ('sum', 'mean'),
    'scope': ('followup', 'whole'),
}
ORIGINAL = {
    'variant': 'original',
    'polarity': 'both',
    'token_reduction': 'mean',
    'followup_reduction': 'mean',
    'scope': 'whole',
}
FOLLOWUPS = {'bipartite': 'default', 'original': 'fed_2020'}


@dataclass(frozen=True)
class FedOptions:
    """
    Which follow-ups count, whose tokens, and how these are put together.

    `variant` says how a context is written for the judge: in the judge's own way
    (bipartite) or as the string of the 2020 program (original). `scope` says whose
    tokens count: the follow-up's, or the whole string's.
    """

    variant: str = 'bipartite'
    polarity: str = 'negative'
    token_reduction: str = 'mean'
    followup_reduction: str = 'sum'
    scope: str = 'followup'

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            value = getattr(self, name)
            if value not in known:
                raise UserError(f'fed: {name} {value!r}; {nearest(str(value), known)}')

    @classmethod
    def of(cls, given: Mapping[str, str]) -> FedOptions:
        """
        Return the options of the variant, with what is given besides in its place.
        """
        preset = ORIGINAL if given.get('variant') == 'original' else {}
        return cls(**{**preset, **given})

    def fields(self) -> dict[str, str]:
        """
        Return what the signature says of them; a plain bipartite FED says no variant.
        """
        found = dict(vars(self))
        for name in ('variant', 'scope'):
            if found[name] == CHOICES[name][0]:
                del found[name]
        return found
