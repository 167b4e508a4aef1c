"""
Pairing schemes: which systems talk with each other, each scheme declared once.

A new scheme is one entry of `SCHEMES`: the protocol file, ``--pairing`` and its help,
the schedule and the tables of results read everything from there. Protocols name
schemes, so this module stands below all others and imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations, product


@dataclass(frozen=True)
class PairingScheme:
    """
    A way to pair the systems of a roster.

    `pairs` returns the names of first and second speakers for the names of targets and
    partners, by target and then in the roster's order. The first speaker's utterances
    are judged. With `swaps_roles` each pair also plays with the roles swapped, and when
    a protocol has both speakers judged, each is compared with the other.
    """

    help: str
    pairs: Callable[[Sequence[str], Sequence[str]], Iterable[tuple[str, str]]]
    has_partners: bool = False
    swaps_roles: bool = False
    fewest_targets: int = 1

    def opponents(
        self, targets: Sequence[str], partners: Sequence[str]
    ) -> tuple[str, ...]:
        """
        Return the second speakers in the roster's order, ``itself`` in self-chats.
        """
        pairs = list(self.pairs(targets, partners))
        if all(first == second for first, second in pairs):
            return ('itself',)
        seconds = {second for _, second in pairs}
        return tuple(name for name in (*targets, *partners) if name in seconds)


SCHEMES = {
    'bipartite': PairingScheme(
        'each target with each partner',
        product,
        has_partners=True,
    ),
    'self_play': PairingScheme(
        'each target with itself',
        lambda targets, partners: ((name, name) for name in targets),
    ),
    'all_play_all': PairingScheme(
        'each target with each other one, in both roles',
        lambda targets, partners: permutations(targets, 2),
        swaps_roles=True,
        fewest_targets=2,
    ),
}


def schemes_help() -> str:
    """
    Return the schemes for a help text: ``self_play (each target with itself), …``.
    """
    *others, last = (f'{name} ({scheme.help})' for name, scheme in SCHEMES.items())
    return f'{", ".join(others)} or {last}'
