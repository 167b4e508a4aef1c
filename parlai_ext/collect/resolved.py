"""
The systems of a protocol, resolved: which can be had, and what they are.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

from parlai_ext.collect.options import AskedSystems
from parlai_ext.core import (
    Roster,
    System,
    SystemFailed,
    UserError,
    errors_of_system,
    frozen,
    known_values,
    nearest,
)
from parlai_ext.core.protocol import Protocol
from parlai_ext.engines import is_zoo_path
from parlai_ext.files import existing_file, load_roster, parse_target
from parlai_ext.isolation.policy import agent_names_like
from parlai_ext.store import SystemRecord
from parlai_ext.systems.zoo import require_in_zoo

if TYPE_CHECKING:
    from parlai_ext.systems.identity import Resolution


@frozen
class ResolvedProtocol:
    """
    A protocol with the systems that can be had.

    `identities` has the content hash of each system, `sampling` those that draw their
    replies at random (the shard is their unit of randomness), `candidates` a hash of
    the replies that each retriever chooses among, and `missing` why systems were left
    out.
    """

    protocol: Protocol
    identities: Mapping[str, str]
    sampling: frozenset[str] = frozenset()
    candidates: Mapping[str, str] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def resolve_protocol(
    protocol: Protocol, before: Mapping[str, SystemRecord], skip_missing: bool
) -> ResolvedProtocol:
    """
    Resolve the systems of a protocol; models that are not here are downloaded.

    :param before: the manifest's entries for targets of the run that are not asked for
        now; they may be gone, because their dialogues are there.
    :param skip_missing: leave out systems that cannot be had.
    :raises UserError: when a system cannot be had and such are not to be left out.
    """
    from parlai_ext.systems.identity import candidates_hash, identity, resolve
    from parlai_ext.systems.parlai_agents import check_options_apart, samples

    wanted = [s for s in protocol.roster.systems if s.name not in before]
    missing = missing_reasons(map(resolve, wanted))
    identities = {name: target.identity for name, target in before.items()}
    for system in [s for s in wanted if s.name not in missing]:
        # all that is missing is known before the first download begins
        if missing and not skip_missing:
            break
        try:
            identities[system.name] = identity(system)
            check_options_apart(system)
        except UserError as e:
            missing[system.name] = str(e).removeprefix(f'system {system.name!r}: ')
    if missing and not skip_missing:
        raise missing_error(missing)
    protocol = _pinned(without_systems(protocol, missing), before)
    there = protocol.roster.systems
    known = {name: target.candidates for name, target in before.items()}
    hashes = known | {s.name: candidates_hash(s) for s in there if s.name not in before}
    sampled = frozenset(name for name, target in before.items() if target.shard_size)
    return ResolvedProtocol(
        protocol,
        identities,
        sampled | {s.name for s in there if samples(s)},
        known_values(hashes),
        missing,
    )


def resolve_systems(systems: Sequence[System], skip_missing: bool) -> ResolvedProtocol:
    """
    Resolve systems that play no protocol, as `resolve_protocol` does.
    """
    protocol = Protocol(name='answers', roster=Roster(tuple(systems)))
    return resolve_protocol(protocol, {}, skip_missing)


def missing_reasons(resolutions: Iterable['Resolution']) -> dict[str, str]:
    """
    Return, by the names of systems that are missing, why.
    """
    from parlai_ext.systems.identity import MISSING

    return {one.name: one.reason or '' for one in resolutions if one.status == MISSING}


def refuse_missing(systems: Iterable[System]) -> None:
    """
    Refuse systems that cannot be had, as far as that can be told without a library of
    models: an agent's name with a slip, or a model file that is not there; of the zoo,
    what it never had.
    """
    missing = {}
    for system in systems:
        path = str(system.opt.get('model_file') or '')
        agent = str(system.opt.get('model') or '')
        try:
            if is_zoo_path(path):
                require_in_zoo(path)
            elif path:
                existing_file(path, 'model_file')
        except UserError as error:
            problem = str(error).removeprefix('model_file: ')
            missing[system.name] = f'model_file: {problem}'
            continue
        known = agent_names_like(agent)
        hint = nearest(agent, known)
        if agent not in known and hint.startswith('did'):
            missing[system.name] = f'model: no agent {agent!r}; {hint}'
    if missing:
        raise missing_error(missing)


def read_systems(asked: AskedSystems) -> list[System]:
    """
    Return the systems that are named, and the targets of the roster.

    :raises UserError: for one that cannot be had, unless such are to be left out.
    """
    systems = [parse_target(spec)[0] for spec in asked.systems]
    if asked.roster:
        systems += load_roster(asked.roster).roster.targets
    if not asked.skip_missing:
        refuse_missing(systems)
    return systems


def missing_error(missing: Mapping[str, str]) -> UserError:
    """
    Return the error that names the systems that cannot be had.
    """
    name, reason = next(iter(missing.items()))
    others = ', '.join(list(missing)[1:])
    more = f' (and {len(missing) - 1} more: {others})' if others else ''
    named = SystemFailed(name, reason)
    if not more and 'did you mean' in reason:
        return UserError(str(named))  # a slip, which nobody wants to leave out
    return UserError(
        f'{named}{more}; see `parlai check_roster`; --skip-missing leaves such out'
    )


def without_systems(protocol: Protocol, missing: Mapping[str, str]) -> Protocol:
    """
    Return the protocol without these systems.

    With partners left out its numbers are no longer those of its name, so that it gets
    another one.

    :raises UserError: when no target, or no partner, is left.
    """
    roster = protocol.roster
    present = roster.replaced(
        {s.name: s for s in roster.systems if s.name not in missing}
    )
    for side in ('targets', 'partners'):
        before = getattr(roster, side)
        if before and not getattr(present, side):
            name = before[0].name
            raise UserError(f'none of the {side} can be had; {name}: {missing[name]}')
    name, planned = protocol.name, len(roster.partners)
    if gone := planned - len(present.partners):
        name += f'-without-{gone}-of-{planned}-partners'
    return replace(protocol, name=name, roster=present)


def _pinned(protocol: Protocol, before: Collection[str]) -> Protocol:
    """
    Return the protocol with its systems pinned: a remote one refuses to answer under
    another model's name later.
    """
    from parlai_ext.systems.families import family_of

    def pin(system: System) -> System:
        if system.name in before:
            return system
        with errors_of_system(system.name):
            return replace(system, opt=family_of(system.opt).pin(system.opt))

    roster = protocol.roster
    pinned = {system.name: pin(system) for system in roster.systems}
    return replace(protocol, roster=roster.replaced(pinned))
