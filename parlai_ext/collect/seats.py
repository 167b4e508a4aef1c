"""
Who takes a seat: what each system of a roster is, which cannot be had, and what a
roster without those is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parlai_ext.core.errors import SystemFailed, UserError
from parlai_ext.core.nouns import Roster, System
from parlai_ext.core.protocol import Protocol


def identities(
    protocol: Protocol, known: Mapping[str, str], opt: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """
    Return what each system is, and why others cannot be had.

    :raises UserError: for the first that cannot, unless such are to be left out.
    """
    from parlai_ext.systems.identity import identity
    from parlai_ext.systems.parlai_agents import check_options
    from parlai_ext.systems.resolve import MISSING, resolve

    datapath = opt.get('datapath')
    systems = protocol.roster.targets + protocol.roster.partners
    needed = [s for s in systems if s.name not in known]
    resolved = [resolve(s, datapath) for s in needed]
    missing = {r.name: r.reason or '' for r in resolved if r.status == MISSING}
    found = dict(known)
    for system in needed:
        # all that is missing is known before the first download begins
        if missing and not opt.get('skip_missing'):
            raise UserError(_refusal(missing))
        if system.name in missing:
            continue
        try:
            found[system.name] = identity(system, datapath)
            check_options(system, datapath)
        except UserError as e:
            missing[system.name] = str(e).removeprefix(f'system {system.name!r}: ')
    if missing and not opt.get('skip_missing'):
        raise UserError(_refusal(missing))
    return found, missing


def _refusal(missing: Mapping[str, str]) -> str:
    """
    Say which systems cannot be had.
    """
    name, reason = next(iter(missing.items()))
    others = ', '.join(list(missing)[1:])
    more = f' (and {len(missing) - 1} more systems: {others})' if others else ''
    named = SystemFailed(name, reason)
    if not more and 'did you mean' in reason:
        return str(named)  # a slip, which nobody wants to leave out
    return f'{named}{more}; see `parlai check_roster`; --skip-missing leaves such out'


def without(protocol: Protocol, missing: Mapping[str, str]) -> Protocol:
    """
    Return the protocol without these systems; with partners left out its numbers are no
    longer those of its name, so that it gets another one.

    :param missing: system name -> why it cannot be had.
    :raises UserError: when no target, or no partner, is left.
    """
    roster = protocol.roster
    kept = Roster(
        tuple(s for s in roster.targets if s.name not in missing),
        tuple(s for s in roster.partners if s.name not in missing),
    )
    for side in ('targets', 'partners'):
        before = getattr(roster, side)
        if before and not getattr(kept, side):
            name = before[0].name
            raise UserError(f'none of the {side} can be had; {name}: {missing[name]}')
    name, planned = protocol.name, len(roster.partners)
    if gone := planned - len(kept.partners):
        name += f'-without-{gone}-of-{planned}-partners'
    return replace(protocol, name=name, roster=kept)


def pinned(protocol: Protocol, known: Mapping[str, str]) -> Protocol:
    """
    Return the protocol with its systems pinned: a remote one refuses to answer under
    another model's name later.

    :param known: systems of the run that are not asked for now.
    """
    from parlai_ext.systems.families import family_of

    def pin(system: System) -> System:
        if system.name in known:
            return system
        try:
            return replace(system, opt=family_of(system.opt).pin(system.opt))
        except UserError as error:
            raise SystemFailed(system.name, str(error)) from error

    roster = protocol.roster
    kept = Roster(tuple(map(pin, roster.targets)), tuple(map(pin, roster.partners)))
    return replace(protocol, roster=kept)


def of_roster(names: Sequence[str], roster: Roster) -> list[str]:
    """
    Return those of these names, each once, that are in the roster.
    """
    there = {s.name for s in roster.targets + roster.partners}
    return [name for name in dict.fromkeys(names) if name in there]


def candidates(
    protocol: Protocol,
    before: Mapping[str, Mapping[str, Any]],
    datapath: str | None = None,
) -> dict[str, str]:
    """
    Return a hash of what each retriever may say.

    :param before: targets of the run that are not asked for now, and may be gone.
    """
    from parlai_ext.systems.identity import candidates_hash

    found = {name: target.get('candidates') for name, target in before.items()}
    for system in protocol.roster.targets + protocol.roster.partners:
        if system.name not in before:
            found[system.name] = candidates_hash(system, datapath)
    return {name: of for name, of in found.items() if of is not None}


def drawing_systems(roster: Roster, datapath: str | None) -> frozenset[str]:
    """
    Return the names of the systems that draw their replies at random: the shard is
    their unit of randomness.
    """
    from parlai_ext.systems.parlai_agents import samples

    systems = roster.targets + roster.partners
    return frozenset(s.name for s in systems if samples(s, datapath))
