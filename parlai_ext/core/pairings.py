"""
Pairing schemes: which systems talk with each other, each scheme declared once.

A new scheme is one entry of `SCHEMES`: the protocol file, ``--pairing`` and its help,
the schedule and the tables of results read everything from there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Pairing, Roster, content_id


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

    def opponents(self, roster: Roster) -> tuple[str, ...]:
        """
        Return the second speakers in the roster's order, ``itself`` in self-chats.
        """
        targets, partners = _names(roster)
        pairs = list(self.pairs(targets, partners))
        if all(first == second for first, second in pairs):
            return ('itself',)
        seconds = {second for _, second in pairs}
        return tuple(name for name in targets + partners if name in seconds)


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


def pairings(
    roster: Roster, scheme: str, identities: Mapping[str, str]
) -> list[Pairing]:
    """
    Return every pairing of the roster under ``scheme``, in the order of its pairs.

    :param identities: for each system's name, the hash of what it is (options and
        model file): a pairing's id depends on names and on these, never on paths.
    :raises UserError: when the scheme cannot pair the roster.
    """
    _check(roster, scheme)
    return [
        Pairing(_pairing_id(first, second, scheme, identities), first, second, scheme)
        for first, second in SCHEMES[scheme].pairs(*_names(roster))
    ]


def _names(roster: Roster) -> tuple[list[str], list[str]]:
    return [system.name for system in roster.targets], [
        system.name for system in roster.partners
    ]


def _check(roster: Roster, scheme: str) -> None:
    """
    Refuse a roster that the scheme cannot pair.
    """
    if scheme not in SCHEMES:
        raise UserError(f'unknown pairing {scheme!r}; known: {", ".join(SCHEMES)}')
    wanted = SCHEMES[scheme]
    if not roster.targets:
        raise UserError('the roster has no targets; it needs at least one')
    if wanted.has_partners and not roster.partners:
        raise UserError(f'{scheme} pairing needs partners, the roster has none')
    if len(roster.targets) < wanted.fewest_targets:
        raise UserError(
            f'{scheme} pairing needs at least {wanted.fewest_targets} targets'
        )
    targets, partners = map(Counter, _names(roster))
    if repeated := [name for name in targets if targets[name] > 1]:
        raise UserError(f'targets named more than once: {_listed(repeated)}')
    if repeated := [name for name in partners if partners[name] > 1]:
        raise UserError(f'partners named more than once: {_listed(repeated)}')
    if both := [name for name in targets if name in partners]:
        raise UserError(
            f'both target and partner: {_listed(both)}; '
            'give a system two names if it shall be both'
        )


def _listed(names: Iterable[str]) -> str:
    return ', '.join(repr(name) for name in names)


def _pairing_id(
    first: str, second: str, scheme: str, identities: Mapping[str, str]
) -> str:
    """
    Return a readable name that is also a safe file name, with 12 hex digits.
    """
    digest = content_id(
        'pairing', scheme, first, identities[first], second, identities[second]
    )
    return f'{_slug(first)}--{_slug(second)}-{digest[:12]}'


def _slug(name: str) -> str:
    """
    Return at most 24 safe characters of ``name``; the digits of the id differ anyway.
    """
    words = re.findall('[A-Za-z0-9_]+', name)
    return '-'.join(words)[:24].strip('-') or 'x'
