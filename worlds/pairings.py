"""
Pairing schemes: which systems talk with each other, each scheme declared once.

A new scheme is one entry of `PLAYED`: the protocol file, ``--pairing`` and its help,
the schedule and the tables of results read everything from there. Protocols name
schemes, so this module stands below all others and imports none of them.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
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

    A scheme that is not played is that of dialogues that exist already. Their pairs are
    those that they have; openers, decoding and seeds are unknown, either speaker may
    begin, and partners are people, who are not judged.
    """

    help: str
    pairs: Callable[[Sequence[str], Sequence[str]], Iterable[tuple[str, str]]]
    has_partners: bool = False
    swaps_roles: bool = False
    fewest_targets: int = 1
    is_played: bool = True

    def opponents(
        self,
        targets: Sequence[str],
        partners: Sequence[str],
        pairs: Collection[tuple[str, str]],
    ) -> tuple[str, ...]:
        """
        Return the systems that targets talk with, in the roster's order; ``itself`` in
        self-play.

        :param pairs: the names of first and second speakers.
        """
        if self.is_played and all(first == second for first, second in pairs):
            return ('itself',)
        met = {second for first, second in pairs if first in targets}
        met |= {first for first, second in pairs if second in targets}
        return tuple(name for name in (*targets, *partners) if name in met)

    def is_self_play(self, first: str, second: str) -> bool:
        """
        True if a system talks with a copy of itself, of which only the one that begins
        is judged.
        """
        return self.is_played and first == second


PLAYED = {
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
IMPORTED = 'imported'
SCHEMES = {
    **PLAYED,
    IMPORTED: PairingScheme(
        'dialogues that exist already', lambda targets, partners: (), is_played=False
    ),
}


def schemes_help() -> str:
    """
    Return the schemes that can be played, for a help text: ``self_play (each target
    with itself), …``.
    """
    *others, last = (f'{name} ({scheme.help})' for name, scheme in PLAYED.items())
    return f'{", ".join(others)} or {last}'
