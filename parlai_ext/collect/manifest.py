"""
The manifest of a run that is to be collected, and its signature.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from parlai_ext.collect.resolved import ResolvedProtocol
from parlai_ext.core.nouns import Opener, Pairing, content_id, to_json
from parlai_ext.core.protocol import Protocol
from parlai_ext.core.signature import signature_line
from parlai_ext.engines.code_facts import versions
from parlai_ext.store.manifest import BATCHSIZE, Manifest, read_manifest


def build_manifest(
    resolved: ResolvedProtocol,
    pairings: Sequence[Pairing],
    openers: Sequence[Opener],
    shard_size: int,
    *,
    batchsize: int = BATCHSIZE,
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
    protocol, roster = resolved.protocol, resolved.protocol.roster
    growth = {'grown_from': list(grown_from)} if grown_from else {}
    collect = collect_keys(resolved, openers)
    if fp16 is not None:
        collect['fp16'] = fp16
    if any(s.name in resolved.sampling for s in roster.partners):
        collect['shard_size'] = shard_size
        collect |= growth
    return read_manifest(
        {
            'protocol': protocol_record(protocol),
            'collect': collect,
            'score': score_keys(protocol),
            'targets': {
                s.name: _target(s.name, resolved, {'shard_size': shard_size, **growth})
                for s in roster.targets
            },
            'partners': {
                s.name: {'identity': resolved.identities[s.name]}
                for s in roster.partners
            },
            'systems': {s.name: dict(s.opt) for s in protocol.roster.systems},
            'pairings': pairings,
            'openers': openers,
            'shard_size': shard_size,
            **growth,
            'batchsize': batchsize,
            **{key: note for key, note in notes.items() if note},
            'versions': versions(),
            'signature': dialogue_signature(protocol, collect),
        }
    )


def protocol_record(protocol: Protocol) -> dict[str, Any]:
    """
    Return a protocol as plain data, without its roster.
    """
    data = to_json(protocol)
    del data['roster']
    return data


def _target(
    name: str, resolved: ResolvedProtocol, units: Mapping[str, Any]
) -> dict[str, Any]:
    """
    Return what the dialogues of a target depend on.

    :param units: how dialogues are cut into shards, the unit of randomness.
    """
    target: dict[str, Any] = {'identity': resolved.identities[name]}
    if name in resolved.sampling:
        target |= units
    if name in resolved.candidates:
        target['candidates'] = resolved.candidates[name]
    return target


def collect_keys(
    resolved: ResolvedProtocol, openers: Sequence[Opener]
) -> dict[str, Any]:
    """
    Return what dialogues depend on, the targets apart, as a flat map.
    """
    from parlai_ext.systems.identity import identity_options

    protocol, candidates = resolved.protocol, resolved.candidates
    keys: dict[str, Any] = {
        'pairing': protocol.pairing,
        'openers': protocol.openers,
        'openers.content': content_id([o.id for o in openers]),
        'num_dialogues': protocol.num_dialogues,
        'num_turns': protocol.num_turns,
        'seed': protocol.seed,
    }
    for partner in protocol.roster.partners:
        keys[f'partners.{partner.name}'] = resolved.identities[partner.name]
        for option, value in identity_options(partner).items():
            keys[f'partners.{partner.name}.{option}'] = value
        if partner.opt.get('remote_dated_model'):
            dated = partner.opt['remote_dated_model']
            keys[f'partners.{partner.name}.dated_model'] = dated
        if partner.name in candidates:
            keys[f'partners.{partner.name}.candidates'] = candidates[partner.name]
    return keys


def score_keys(protocol: Protocol) -> dict[str, Any]:
    """
    Return the scorer's options as a flat map.

    What the judge and the follow-ups contain is in the scorer's own signature, since
    dialogues may be collected on a machine that does not have the judge.
    """
    options = {f'scorer.{k}': v for k, v in sorted(protocol.scorer.items())}
    return {'score': protocol.score, **options}


def dialogue_signature(
    protocol: Protocol, collect: Mapping[str, Any], made_by: str | None = None
) -> str:
    """
    Return the part of the signature that says how dialogues arise, as one line.

    :param made_by: the version of parlai_ext (`None`: this one).
    """
    partners = {k: v for k, v in collect.items() if k.startswith('partners.')}
    rest = {k: v for k, v in collect.items() if not k.startswith('partners.')}
    made_by = made_by or versions()['parlai_ext']
    head = {'protocol': protocol.name, 'parlai_ext': made_by}
    return signature_line({**head, **rest, 'partners': partners})
