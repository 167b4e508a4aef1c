"""
From options to a plan and its run folder: who talks, over which openers, how long; and
which of the systems can be had, and what they are.
"""

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import TYPE_CHECKING, Any

from parlai_ext.collect.options import AskedSystems, PlanOptions
from parlai_ext.core import (
    JsonObject,
    Opener,
    Pairing,
    Protocol,
    Roster,
    System,
    SystemFailed,
    UserError,
    errors_of_system,
    frozen,
    known_values,
    nearest,
)
from parlai_ext.engines import Machine, is_zoo_path
from parlai_ext.engines.engine import versions
from parlai_ext.files import existing_file, load_roster, parse_target
from parlai_ext.isolation.policy import (
    SCORER,
    agent_names_like,
    is_named,
    is_own_scorer,
    note_parts,
    trusted_hashes,
)
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.store import (
    Manifest,
    Plan,
    RunFolder,
    SystemRecord,
    merge_manifests,
    pairings,
    read_manifest,
    sample_openers,
    shard_size_for,
    system_part,
)
from parlai_ext.systems.task_data import NO_DOWNLOAD, load_openers
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


@frozen
class RequestedProtocol:
    """
    The protocol that options ask for, with the targets that the run already has.

    :param run: as it is; `None`: it is a new one.
    :param asked: the names of the targets that are asked for now.
    :param guessed: the names of systems that are guesses; a target of the run that is
        not asked for now is as much one as before.
    :param families: the families that rosters declare, by system.
    :param openers_file: the file of its openers, if they come from one.
    :param scorer_is_named: the user named the scorer, in a file or when the run was
        made; else the run folder alone names it.
    """

    options: PlanOptions
    protocol: Protocol
    run: RunFolder | None
    asked: set[str]
    guessed: list[str]
    families: dict[str, str]
    openers_file: str | None
    scorer_is_named: bool

    @property
    def old(self) -> Manifest | None:
        """
        The manifest of the run.
        """
        return self.run.manifest if self.run else None

    @property
    def earlier_targets(self) -> dict[str, SystemRecord]:
        """
        The targets of the run that are not asked for now, which may be gone.
        """
        targets = self.old.targets if self.old else {}
        return {n: target for n, target in targets.items() if n not in self.asked}

    @property
    def needed_systems(self) -> list[System]:
        """
        The systems without which the options are refused.
        """
        everybody = self.protocol.roster.systems
        return [s for s in everybody if s.name not in self.earlier_targets]

    def over(self, n_openers: int, run: RunFolder | None) -> 'RequestedProtocol':
        """
        Return the same over so many openers, with the run as it is now.
        """
        overrides = {**self.options.overrides, 'num_dialogues': n_openers}
        options = replace(self.options, overrides=overrides)
        protocol = replace(self.protocol, num_dialogues=n_openers)
        return replace(self, options=options, protocol=protocol, run=run)


def make_plan(requested: RequestedProtocol, machine: Machine) -> Plan:
    """
    Return the plan that is asked for, without touching the run folder; models that are
    not here are downloaded.

    :raises UserError: for a mistake in the options or in the files that they name.
    """
    options, old = requested.options, requested.old
    earlier = _unchanged_targets(requested)
    resolved = resolve_protocol(requested.protocol, earlier, options.skip_missing)
    protocol = resolved.protocol
    openers: Sequence[Opener] = (
        old.openers
        if old and not options.config
        else _draw_openers(protocol, requested.openers_file)
    )
    pairs = pairings(protocol.roster, protocol.pairing, resolved.identities)
    grown_from: tuple[int, ...] = ()
    batchsize = machine.batchsize
    size = shard_size_for(len(openers), batchsize)
    if old:
        _refuse_other_pairs(old, pairs, protocol)
        batchsize, size = old.batchsize, old.shard_size
        before = (*old.grown_from, len(old.openers))
        grown_from = tuple(n for n in before if n < len(openers))
    left_out = tuple(f'{name}: {why}' for name, why in resolved.missing.items())
    names = {system.name for system in protocol.roster.systems}
    manifest = build_manifest(
        resolved,
        pairs,
        openers,
        size,
        batchsize=batchsize,
        grown_from=grown_from,
        fp16=machine.fp16,
        guessed=[name for name in dict.fromkeys(requested.guessed) if name in names],
        asked=_asked(options, old),
        left_out=left_out or (old.left_out if old else ()),
        families={n: f for n, f in requested.families.items() if n in names},
        trusted=(old.trusted if old else {}) | trusted_hashes(machine.trust_model_code),
        stop=old.stop if old else None,
    )
    # with the systems that the user named, which a manifest does not tell
    return replace(Plan.from_manifest(manifest, protocol), left_out=left_out)


def prepare(requested: RequestedProtocol, machine: Machine) -> tuple[RunFolder, Plan]:
    """
    Make the plan and open its run folder: a new one, the same one, or an extended one.
    """
    run, run_dir = requested.run, requested.options.run_dir
    if not run_dir:
        raise UserError('--run-dir is needed: the folder that the run goes to')
    if run and not run.manifest.scheme.is_played:  # all of its dialogues are there
        return run, run.plan
    plan = make_plan(requested, machine)
    run = RunFolder.open(run_dir, plan.manifest)
    scorers = [SCORER] if requested.scorer_is_named else []
    note_parts(run.manifest, [*named_systems(plan), *scorers])
    return run, plan


def plan_to_try(requested: RequestedProtocol, machine: Machine) -> Plan:
    """
    Return the plan that is asked for as the run would accept it, and write nothing.

    :raises UserError: when the run folder holds a run with other settings.
    """
    plan = make_plan(requested, machine)
    if run := requested.run:
        merge_manifests(run.manifest, plan.manifest, run.root)
    return plan


def named_systems(plan: Plan) -> list[str]:
    """
    Return the parts of a plan's manifest with the systems that the user named, now or
    when their record was made.
    """
    return [system_part(s.name) for s in plan.protocol.roster.systems if is_named(s)]


def refuse_collecting(run: RunFolder) -> None:
    """
    Refuse to collect further dialogues in a run whose dialogues were imported.
    """
    if not run.manifest.scheme.is_played:
        raise UserError(
            f'{run.root} holds imported dialogues: none can be added; '
            '--run-dir alone takes them as they are'
        )


def requested_protocol(options: PlanOptions) -> RequestedProtocol:
    """
    Return the protocol that the options ask for, of a new run or of the old one.
    """
    run = RunFolder.existing_or_none(options.run_dir)
    if run and (options.config or options.add_target):
        refuse_collecting(run)
    old = run.manifest if run else None
    added = [parse_target(spec) for spec in options.add_target]
    infos = {system.name: about for system, about in added}
    now: tuple[System, ...] = ()
    openers_file = None
    if options.config:
        file = load_protocol_file(options.config, options.overrides)
        protocol = file.protocol
        openers_file = options.openers_file or file.openers_file
        infos = {**file.info, **infos}
        now = protocol.roster.targets
    else:
        protocol = known_protocol(options, run)
    more = [system for system, _ in added]
    targets = _merge_targets(run.plan.roster.targets if run else (), now, more)
    protocol = replace(protocol, roster=replace(protocol.roster, targets=targets))
    asked = {s.name for s in [*now, *more]}
    guessed = [name for name, about in infos.items() if about.guess]
    families = {name: about.family for name, about in infos.items() if about.family}
    if old:
        guessed += [name for name in old.guessed if name not in asked]
        families = old.families | families
    scorer_is_named = bool(options.config or (old and is_own_scorer(old)))
    return RequestedProtocol(
        options,
        protocol,
        run,
        asked,
        guessed,
        families,
        openers_file,
        scorer_is_named,
    )


def known_protocol(options: PlanOptions, run: RunFolder | None) -> Protocol:
    """
    Return the protocol of the run, where none is named.

    :raises UserError: when there is no run, or for an option that needs ``--config``.
    """
    if run is None:
        none = f'; there is no run in {options.run_dir}' if options.run_dir else ''
        raise UserError(
            '--config is needed: a protocol name (demo, …) or a YAML file; '
            f'or --run-dir: a run to go on with{none}'
        )
    for name in options.options_needing_config:
        flag = '--' + name.replace('_', '-')
        raise UserError(f'{flag} needs --config; without it a run goes on as it is')
    return run.plan.protocol


def _unchanged_targets(requested: RequestedProtocol) -> dict[str, SystemRecord]:
    """
    Return the run's targets that are not asked for now, without those that have become
    others and have dialogues left to play, which would be mixed with the earlier ones.
    A target that is gone stays: it fails when it is loaded.
    """
    from parlai_ext.collect.not_run import missing_by_pair
    from parlai_ext.systems.identity import identity

    earlier, run = requested.earlier_targets, requested.run
    if not earlier or run is None:
        return earlier
    grows = requested.protocol.num_dialogues > len(run.openers)
    pairs = [p.speakers for p in run.pairings] if grows else missing_by_pair(run)
    unfinished = {name for pair in pairs for name in pair}
    changed = set()
    for system in requested.protocol.roster.targets:
        if system.name in unfinished & earlier.keys():
            with contextlib.suppress(UserError):
                if identity(system) != earlier[system.name].identity:
                    changed.add(system.name)
    return {n: target for n, target in earlier.items() if n not in changed}


def refuse_missing_openers(requested: RequestedProtocol) -> None:
    """
    Refuse more dialogues than there are openers, where these are in a file, shipped,
    generated or typed. Tasks whose data may have to be downloaded are not touched.
    """
    task, file = requested.protocol.openers, requested.openers_file
    if file or task.startswith(NO_DOWNLOAD):
        sample_openers(load_openers(task, file), requested.protocol.num_dialogues, 0)


def _merge_targets(
    before: Sequence[System], asked: Sequence[System], more: Sequence[System]
) -> tuple[System, ...]:
    """
    Return all targets once, those of the run first; what is asked now wins.

    :raises UserError: when ``--add-target`` repeats the name of an asked one.
    """
    names = {s.name for s in asked}
    for system in more:
        if system.name in names:
            raise UserError(f'--add-target: there is a target {system.name!r} already')
    now = {s.name: s for s in [*asked, *more]}
    merged = {s.name: now.get(s.name, s) for s in before}
    return tuple({**merged, **now}.values())


def _refuse_other_pairs(
    old: Manifest, pairs: Sequence[Pairing], protocol: Protocol
) -> None:
    """
    Refuse new targets with which two systems of the run would no longer be a pair.
    """
    names = {system.name for system in protocol.roster.systems}
    planned = {pair.speakers for pair in pairs}
    for pairing in old.pairings:
        first, second = pairing.speakers
        if {first, second} <= names and (first, second) not in planned:
            raise UserError(
                f'targets: with {protocol.pairing} pairing none can be added to a run, '
                f'because {first!r} would no longer talk with {second!r}; use another '
                '--run-dir'
            )


def _asked(options: PlanOptions, old: Manifest | None) -> JsonObject:
    """
    Return the options that this run came about by, its added targets among them.
    """
    asked = dict(old.asked) if old else {}
    added = [*asked.pop('add_target', []), *options.add_target]
    by_name = {spec.partition('=')[0]: spec for spec in added}
    if options.config:
        asked = {'config': options.config, **options.options_needing_config}
    return {**asked, 'add_target': list(by_name.values())} if added else asked


def _draw_openers(protocol: Protocol, openers_file: str | None) -> list[Opener]:
    """
    Draw the run's openers, the same for every pairing.
    """
    openers = load_openers(protocol.openers, openers_file)
    longest = max((len(o.utterances) for o in openers), default=0)
    if longest >= protocol.num_turns:
        raise UserError(
            f'num_turns is {protocol.num_turns}, but an opener of {protocol.openers} '
            f'has {longest} utterances already; num_turns counts them'
        )
    return sample_openers(openers, protocol.num_dialogues, protocol.seed)


# --- the manifest, and its signature --------------------------------------------------


def build_manifest(
    resolved: ResolvedProtocol,
    pairs: Sequence[Pairing],
    openers: Sequence[Opener],
    shard_size: int,
    *,
    batchsize: int,
    grown_from: Sequence[int] = (),
    fp16: bool | None = None,
    **notes: Any,
) -> Manifest:
    """
    Return the manifest of a run that plays ``pairings`` over ``openers``.

    :param shard_size: dialogues of a pairing that are kept in one file.
    :param batchsize: dialogues that a block is packed to.
    :param grown_from: how many openers the run had before each time that it grew.
    :param notes: what it tells its reader, which is not compared; empty ones are left
        out.
    """

    def record(system: System) -> dict[str, object]:
        own: dict[str, object] = {
            'identity': resolved.identities[system.name],
            'candidates': resolved.candidates.get(system.name),
        }
        if system.name in resolved.sampling:
            own |= {'shard_size': shard_size, 'grown_from': grown_from}
        return _filled(own)

    protocol, roster = resolved.protocol, resolved.protocol.roster
    partners = {
        one.name: _filled({**record(one), 'options': _partner_options(one)})
        for one in roster.partners
    }
    return signed_manifest(
        {
            'protocol': protocol_record(protocol),
            'targets': {s.name: record(s) for s in roster.targets},
            'partners': partners,
            'systems': {s.name: dict(s.opt) for s in roster.systems},
            'pairings': pairs,
            'openers': openers,
            'shard_size': shard_size,
            'batchsize': batchsize,
            **known_values({'fp16': fp16}),
            **_filled({'grown_from': grown_from, **notes}),
        }
    )


def _partner_options(system: System) -> dict[str, object]:
    """
    Return the options of a partner that the signature names.
    """
    from parlai_ext.systems.identity import identity_options

    dated = _filled({'dated_model': system.opt.get('remote_dated_model')})
    return {**identity_options(system), **dated}


def _filled(values: Mapping[str, object]) -> dict[str, object]:
    """
    Return the values that are there and not empty.
    """
    return {key: value for key, value in values.items() if value}


def signed_manifest(data: Mapping[str, object]) -> Manifest:
    """
    Return the manifest of a run that is made here and now, as it will be read.

    :param data: what it holds, but for the versions and the signature.
    """
    manifest = read_manifest({**data, 'versions': versions(), 'signature': ''})
    return manifest.changed(signature=manifest.dialogue_signature())


def protocol_record(protocol: Protocol) -> dict[str, object]:
    """
    Return a protocol as plain data, without its roster.
    """
    data = asdict(protocol)
    del data['roster']
    return data
