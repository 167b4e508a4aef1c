"""
From options to a plan and its run folder: who talks, over which openers, how long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from parlai_ext.collect import seats
from parlai_ext.collect.manifest import BATCHSIZE, build_manifest
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Opener, Pairing, Roster, System
from parlai_ext.core.pairings import SCHEMES, pairings
from parlai_ext.core.protocol import Protocol
from parlai_ext.core.schedule import sample_openers, shard_size_for
from parlai_ext.files.roster_file import parse_target
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.store import RunFolder, imported

# options of the command line that replace a key of the protocol file
OVERRIDES = (
    'roster',
    'pairing',
    'openers',
    'num_dialogues',
    'num_turns',
    'seed',
    'score',
    'judge_model_file',
    *('rule', 'rating', 'shuffles'),
    'followups',
    'bootstraps',
    'max_failed_share',
    'max_truncated_share',
)


@dataclass(frozen=True)
class Plan:
    """
    What a run will do; `left_out` names systems dropped by ``--skip-missing``.
    """

    protocol: Protocol
    pairings: tuple[Pairing, ...]
    openers: tuple[Opener, ...]
    shard_size: int
    manifest: Mapping[str, Any]
    left_out: tuple[str, ...] = ()

    @property
    def roster(self) -> Roster:
        return self.protocol.roster

    @property
    def both_judged(self) -> bool:
        """
        True if both speakers are judged and every pair also plays with the roles
        swapped.
        """
        scheme = SCHEMES.get(self.protocol.pairing)
        return (
            scheme is not None and scheme.swaps_roles and self.protocol.score == 'both'
        )

    @property
    def opponents(self) -> tuple[str, ...]:
        """
        The systems that targets talk with, ``itself`` in self-play.
        """
        scheme = SCHEMES.get(self.protocol.pairing)
        if scheme is None:
            return imported.met_systems(self.roster, self.pairings)
        return scheme.opponents(self.roster)

    def judged_sides(self, pairing: Pairing) -> tuple[Pairing, ...]:
        """
        Return the pairing once for each judged speaker, who comes first.
        """
        if self.both_judged and pairing.first != pairing.second:
            return pairing, replace(pairing, first=pairing.second, second=pairing.first)
        return imported.judged_sides(pairing)


def make_plan(opt: Mapping[str, Any]) -> Plan:
    """
    Return the plan that these options ask for, without touching the run folder; models
    that are not here are downloaded.

    :raises UserError: for anything in the options or files that cannot be meant.
    """
    old = _old_manifest(opt.get('run_dir'))
    protocol, asked, guessed = _protocol(opt, old)
    # targets that only the run knows may be gone: their dialogues are there
    known = {
        name: target['identity']
        for name, target in (old['targets'] if old else {}).items()
        if name not in asked
    }
    identities, missing = seats.identities(protocol, known, opt)
    protocol = seats.pinned(seats.without(protocol, missing), known)
    openers = _old_openers(old) if goes_on(opt, old) else _openers(protocol, opt)
    pairs = pairings(protocol.roster, protocol.pairing, identities)
    _refuse_other_pairs(old, pairs, protocol)
    batchsize = old['batchsize'] if old else opt.get('batchsize') or BATCHSIZE
    size = old['shard_size'] if old else shard_size_for(len(openers), batchsize)
    before = {name: old['targets'][name] for name in known} if old else {}
    sampling = seats.drawing_systems(protocol.roster, opt.get('datapath')) | {
        name for name, target in before.items() if 'shard_size' in target
    }
    left_out = tuple(f'{name}: {reason}' for name, reason in missing.items())
    manifest = build_manifest(
        *(protocol, pairs, openers, identities, size, sampling),
        batchsize=batchsize,
        guessed=seats.of_roster(guessed, protocol.roster),
        candidates=seats.candidates(protocol, before, opt.get('datapath')),
        asked=asked_for(opt, old),
        left_out=left_out or (old or {}).get('left_out') or (),
        fp16=opt.get('fp16'),
        trusted=_trusted(opt, old),
    )
    return Plan(protocol, tuple(pairs), tuple(openers), size, manifest, left_out)


def _trusted(opt: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, str]:
    """
    Return the model files that might run code, now or before, by their hashes.
    """
    before = dict((old or {}).get('trusted') or {})
    names = opt.get('trust_model_code')
    if not names:
        return before
    from parlai_ext.systems.safe.trust import trusted_hashes

    return {**before, **trusted_hashes(names, opt.get('datapath'))}


def asked_for(opt: Mapping[str, Any], old: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Return the options that this run came about by, its added targets among them.
    """
    before = dict(old.get('asked') or {}) if old else {}
    added = [*before.pop('add_target', []), *(opt.get('add_target') or ())]
    names = ('config', *OVERRIDES, 'openers_file')
    now = {k: opt[k] for k in names if opt.get(k) is not None}
    asked = before if goes_on(opt, old) else now
    return {**asked, 'add_target': list(dict.fromkeys(added))} if added else asked


def prepare(opt: Mapping[str, Any]) -> tuple[RunFolder, Plan]:
    """
    Make the plan and open its run folder: a new one, the same one, or an extended one.
    """
    if not opt.get('run_dir'):
        raise UserError('--run-dir is needed: the folder that the run goes to')
    plan = make_plan(opt)
    return RunFolder.open(opt['run_dir'], plan.manifest), plan


def plan_of_run(run: RunFolder) -> Plan:
    """
    Return the plan that a run folder's manifest holds.
    """
    manifest = run.manifest
    return Plan(
        protocol_of(manifest),
        tuple(Pairing(**p) for p in manifest['pairings']),
        tuple(_old_openers(manifest) or imported.numbered_openers(manifest)),
        manifest['shard_size'],
        manifest,
    )


def protocol_of(manifest: Mapping[str, Any]) -> Protocol:
    """
    Return the protocol of a manifest, its roster with it.
    """

    def systems(kind: str) -> tuple[System, ...]:
        return tuple(System(n, manifest['systems'][n]) for n in manifest[kind])

    roster = Roster(systems('targets'), systems('partners'))
    return Protocol(**{**manifest['protocol'], 'roster': roster})


def _old_manifest(run_dir: str | None) -> Mapping[str, Any] | None:
    run = RunFolder.existing_or_none(run_dir)
    if run is None:
        return None
    imported.refuse_collecting(run.manifest, run_dir)
    return run.manifest


def _protocol(
    opt: Mapping[str, Any], old: Mapping[str, Any] | None
) -> tuple[Protocol, set[str], list[str]]:
    """
    Return the protocol with the targets that the run already has, the names of the
    targets that are asked for now, and those of systems that are guesses.
    """
    added = [parse_target(spec) for spec in opt.get('add_target') or ()]
    more = [system for system, _ in added]
    before = protocol_of(old).roster.targets if old else ()
    given = {k: opt[k] for k in OVERRIDES if opt.get(k) is not None}
    if old and goes_on(opt, old):
        protocol, guessed = protocol_of(old), list(old.get('guessed') or ())
        now: tuple[System, ...] = ()
        _refuse_changes(opt)
    elif opt.get('config'):
        file = load_protocol_file(opt['config'], given)
        protocol = file.protocol
        guessed = [name for name, about in file.info.items() if about.guess]
        now = protocol.roster.targets
    else:
        none = f'; there is no run in {opt["run_dir"]}' if opt.get('run_dir') else ''
        raise UserError(
            f'--config is needed: a protocol name (demo, …) or a YAML file{none}'
        )
    roster = replace(protocol.roster, targets=merge_targets(before, now, more))
    asked = {s.name for s in [*now, *more]}
    guessed += [system.name for system, about in added if about.guess]
    # a target of the run that is not asked for now is as much a guess as before
    guessed += [name for name in (old or {}).get('guessed') or () if name not in asked]
    return replace(protocol, roster=roster), asked, guessed


def protocol_of_options(opt: Mapping[str, Any]) -> Protocol:
    """
    Return the protocol that these options ask for, with all targets of its run.
    """
    return _protocol(opt, _old_manifest(opt.get('run_dir')))[0]


def _refuse_changes(opt: Mapping[str, Any]) -> None:
    """
    Refuse options that say how dialogues arise when no protocol file is given.
    """
    for option in (*OVERRIDES, 'openers_file'):
        if opt.get(option) is not None:
            name = '--' + option.replace('_', '-')
            raise UserError(f'{name} needs --config; without it a run goes on as it is')


def _refuse_other_pairs(
    old: Mapping[str, Any] | None, pairs: Sequence[Pairing], protocol: Protocol
) -> None:
    """
    Refuse targets whose coming would part pairs of the run that is there.
    """
    systems = {s.name for s in protocol.roster.targets + protocol.roster.partners}
    planned = {(pair.first, pair.second) for pair in pairs}
    for one in (old or {}).get('pairings', ()):
        names = one['first'], one['second']
        if systems.issuperset(names) and names not in planned:
            raise UserError(
                f'targets: with {protocol.pairing} pairing none can be added to a run, '
                f'because {names[0]!r} would no longer talk with {names[1]!r}; use '
                'another --run-dir'
            )


def goes_on(opt: Mapping[str, Any], old: Mapping[str, Any] | None) -> bool:
    """
    Tell whether a run that is there goes on by what its manifest says alone.
    """
    return old is not None and not opt.get('config')


def merge_targets(
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


def _old_openers(manifest: Mapping[str, Any] | None) -> list[Opener]:
    return [
        Opener(o['id'], tuple(o['utterances']), o['source'])
        for o in (manifest or {})['openers']
    ]


def _openers(protocol: Protocol, opt: Mapping[str, Any]) -> list[Opener]:
    """
    Draw the run's openers, the same for every pairing.
    """
    from parlai_ext.systems.openers import load_openers

    found = load_openers(
        protocol.openers, opt.get('openers_file'), datapath=opt.get('datapath')
    )
    longest = max((len(o.utterances) for o in found), default=0)
    if longest >= protocol.num_turns:
        raise UserError(
            f'num_turns is {protocol.num_turns}, but an opener of {protocol.openers} '
            f'has {longest} utterances already; num_turns counts them'
        )
    return sample_openers(found, protocol.num_dialogues, protocol.seed)
