"""
The manifest of a run: everything that must be equal when the run goes on.

`collect` and `score` are flat maps of what may not change; `targets` may grow. The
`systems` map says how to build each system again and is not compared: a model file may
move, its content (in `identity`) may not.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from parlai_ext.core.nouns import Opener, Pairing, content_id, to_json
from parlai_ext.core.protocol import Protocol
from parlai_ext.core.signature import signature_line
from parlai_ext.store.manifest import SCHEMA

BATCHSIZE = 64
PACKAGES = ('parlai_ext', 'parlai', 'torch', 'transformers', 'tokenizers', 'numpy')


def build_manifest(
    protocol: Protocol,
    pairings: Sequence[Pairing],
    openers: Sequence[Opener],
    identities: Mapping[str, str],
    shard_size: int,
    sampling: Collection[str],
    *,
    batchsize: int = BATCHSIZE,
    guessed: Sequence[str] = (),
    candidates: Mapping[str, str] | None = None,
    asked: Mapping[str, Any] | None = None,
    left_out: Sequence[str] = (),
    fp16: bool | None = None,
    trusted: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """
    Return the manifest of a run that plays ``pairings`` over ``openers``.

    :param identities: system name -> content hash of what it is.
    :param sampling: systems that draw their replies, to which the shard size matters.
    :param batchsize: rows that a block is packed to.
    :param asked: the options that the run came about by, for a reader to repeat it.
    :param left_out: systems that could not be had, and why.
    :param guessed: systems of which the paper does not say exactly what they are.
    :param candidates: system name -> hash of the replies that it chooses among.
    :param trusted: model files that might run code when they were read, by hash.
    """
    roster = protocol.roster
    replies = candidates or {}
    collect = collect_keys(protocol, openers, identities, replies)
    if fp16 is not None:
        collect['fp16'] = fp16
    if any(s.name in sampling for s in roster.partners):
        collect['shard_size'] = shard_size
    targets: dict[str, dict[str, Any]] = {
        s.name: {'identity': identities[s.name]} for s in roster.targets
    }
    for name in set(targets) & set(sampling):
        targets[name]['shard_size'] = shard_size
    for name in set(targets) & set(replies):
        targets[name]['candidates'] = replies[name]
    return {
        'schema': SCHEMA,
        'protocol': {**to_json(protocol), 'roster': None},
        'collect': collect,
        'score': score_keys(protocol),
        'targets': targets,
        'partners': {s.name: {'identity': identities[s.name]} for s in roster.partners},
        'systems': {s.name: dict(s.opt) for s in roster.targets + roster.partners},
        'pairings': [to_json(p) for p in pairings],
        'openers': [to_json(o) for o in openers],
        'shard_size': shard_size,
        'batchsize': batchsize,
        'guessed': list(guessed),
        'asked': dict(asked or {}),
        'left_out': list(left_out),
        'trusted': dict(trusted or {}),
        'versions': versions(),
        'signature': dialogue_signature(protocol, collect),
    }


def collect_keys(
    protocol: Protocol,
    openers: Sequence[Opener],
    identities: Mapping[str, str],
    candidates: Mapping[str, str],
) -> dict[str, Any]:
    """
    Return what dialogues depend on, the targets apart, as a flat map.
    """
    from parlai_ext.systems.identity import identity_options

    keys: dict[str, Any] = {
        'pairing': protocol.pairing,
        'openers': protocol.openers,
        'openers.content': content_id([o.id for o in openers]),
        'num_dialogues': protocol.num_dialogues,
        'num_turns': protocol.num_turns,
        'seed': protocol.seed,
    }
    for partner in protocol.roster.partners:
        keys[f'partners.{partner.name}'] = identities[partner.name]
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


def dialogue_signature(protocol: Protocol, collect: Mapping[str, Any]) -> str:
    """
    Return the part of the signature that says how dialogues arise, as one line.
    """
    partners = {k: v for k, v in collect.items() if k.startswith('partners.')}
    rest = {k: v for k, v in collect.items() if not k.startswith('partners.')}
    head = {'protocol': protocol.name, 'parlai_ext': _version('parlai_ext')}
    return signature_line({**head, **rest, 'partners': partners})


def versions() -> dict[str, str]:
    """
    Return the versions of what numbers may depend on.
    """
    found = {name: _version(name) for name in PACKAGES}
    return {'python': platform.python_version(), **found}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return 'absent'
